-- Return all members of workflows with their parents, in the order in which they were added, as the rules of graphs see them. Each row also
-- has the state of the workflow, and the time.
-- :flows.
SELECT
    flows.id AS flow, flows.paused_at, flows.ended_for, flows.deadline_at, clock_timestamp() AS now, -- include vertex()
CROSS JOIN LATERAL (
    SELECT
        array_agg(edges.parent ORDER BY edges.parent) AS ids, array_agg(edges.tolerates ORDER BY edges.parent) AS tolerates,
        array_agg(edges.is_child ORDER BY edges.parent) AS are_children, array_agg(edges.parent_flow ORDER BY edges.parent) AS flows
    FROM holdfast.edges AS edges WHERE edges.child = members.job
    OFFSET 0
) AS parents
JOIN holdfast.flows AS flows ON flows.id = members.flow
WHERE members.flow = ANY(:flows::uuid[])
ORDER BY members.position;
