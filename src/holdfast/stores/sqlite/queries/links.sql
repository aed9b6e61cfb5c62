-- Return the blocked children of these members, with their counters and the edges to each of them.
-- An edge is eight times the position of the parent, and a sum of flags. 4: it tolerates a failure. 2: the parent is a child that its owner
-- waits for. 1: they belong to different flows.
WITH linked AS MATERIALIZED (
    SELECT
        edges.child, min(place.value) AS place,
        group_concat(8 * place.value + 4 * edges.tolerates + 2 * edges.is_child + (edges.parent_flow IS NOT NULL)) AS edges
    FROM json_each(:places) AS place
    CROSS JOIN holdfast_edges AS edges ON edges.parent = substr(:items, 72 * place.value + 1, 16)
    GROUP BY edges.child
)
SELECT
    linked.child, members.needs, members.waits, members.is_gate, members.on_failure, members.is_suspended, jobs.cancel_requested, linked.edges
FROM linked
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = linked.child
CROSS JOIN holdfast_members AS members ON members.job = linked.child
WHERE jobs.state = 'blocked'
ORDER BY linked.place, members.position;
