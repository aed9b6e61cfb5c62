-- awaited(root): whether a job of another workflow waits, and depends on a member of the workflow of this root.
EXISTS (
    SELECT FROM holdfast.edges AS outer_edges
    WHERE outer_edges.parent_flow = root AND EXISTS (
        SELECT FROM holdfast.pending AS child WHERE child.id = outer_edges.child AND child.state = 'blocked' OFFSET 0
    )
    OFFSET 0
)
