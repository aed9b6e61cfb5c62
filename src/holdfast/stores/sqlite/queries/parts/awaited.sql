-- awaited(root): whether a job of another flow waits, and depends on a member of the flow of this root.
EXISTS (
    SELECT 1 FROM holdfast_edges AS edges
    JOIN holdfast_jobs AS child ON child.id = edges.child
    WHERE edges.parent_flow = root AND child.state = 'blocked'
)
