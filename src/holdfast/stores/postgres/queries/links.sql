-- Return the blocked children of these members, with their counters; also the children of those that are gates.
-- :parents; :is_deep, whether also all that depends on these children, directly or through others.
WITH RECURSIVE reached (parent, child, tolerates, needs, waits, is_gate, on_failure) AS (
    SELECT asked.parent, child.*
    FROM unnest(:parents::uuid[]) AS asked (parent) CROSS JOIN LATERAL (
        -- include blocked_children(asked.parent)
    ) AS child
    UNION
    SELECT reached.child, child.*
    FROM reached CROSS JOIN LATERAL (
        -- include blocked_children(reached.child)
    ) AS child
    WHERE :is_deep::boolean OR reached.is_gate
)

SELECT parent, child, tolerates, needs, waits, is_gate, on_failure FROM reached;
