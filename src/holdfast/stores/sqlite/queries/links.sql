-- Return the blocked children of these members, with their counters.
SELECT
    edges.parent, edges.child, edges.tolerates, edges.is_child, edges.parent_flow IS NOT NULL, members.needs, members.waits, members.is_gate, members.on_failure,
    members.is_suspended, jobs.cancel_requested
FROM json_each(:places) AS place
CROSS JOIN holdfast_edges AS edges ON edges.parent = substr(:items, 72 * place.value + 1, 16)
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = edges.child
CROSS JOIN holdfast_members AS members ON members.job = edges.child
WHERE jobs.state = 'blocked'
ORDER BY place.value, members.position;
