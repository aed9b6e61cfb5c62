-- blocked_children(of_parent): the children of a member that wait for others, with their counters. One by one, whatever the plan.
SELECT edge.child, edge.tolerates, waiting.needs, waiting.waits, waiting.is_gate, waiting.on_failure
FROM (SELECT edges.child, edges.tolerates FROM holdfast.edges AS edges WHERE edges.parent = of_parent OFFSET 0) AS edge
CROSS JOIN LATERAL (
    SELECT members.needs, members.waits, members.is_gate, members.on_failure FROM holdfast.members AS members
    WHERE members.job = edge.child
        AND EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = edge.child AND job.state = 'blocked' OFFSET 0)
    OFFSET 0
) AS waiting
