-- Return the blocked children of these members with their counters, and those of the children, and so on.
-- :parents.
WITH RECURSIVE reached (parent, child, tolerates, is_child, is_outside, needs, waits, is_gate, on_failure, is_suspended, is_cancelled) AS (
    SELECT asked.parent, edge.child, edge.tolerates, edge.is_child, edge.is_outside, waiting.*
    FROM unnest(:parents::uuid[]) AS asked (parent)
    CROSS JOIN LATERAL (
        SELECT edges.child, edges.tolerates, edges.is_child, edges.parent_flow IS NOT NULL AS is_outside
        FROM holdfast.edges AS edges WHERE edges.parent = asked.parent OFFSET 0
    ) AS edge
    CROSS JOIN LATERAL (
        -- include blocked(edge.child)
    ) AS waiting
    UNION
    SELECT reached.child, edge.child, edge.tolerates, edge.is_child, edge.is_outside, waiting.*
    FROM reached
    CROSS JOIN LATERAL (
        SELECT edges.child, edges.tolerates, edges.is_child, edges.parent_flow IS NOT NULL AS is_outside
        FROM holdfast.edges AS edges WHERE edges.parent = reached.child OFFSET 0
    ) AS edge
    CROSS JOIN LATERAL (
        -- include blocked(edge.child)
    ) AS waiting
)

SELECT parent, child, tolerates, is_child, is_outside, needs, waits, is_gate, on_failure, is_suspended, is_cancelled FROM reached;
