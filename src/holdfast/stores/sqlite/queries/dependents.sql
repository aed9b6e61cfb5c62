-- Return the jobs of other flows that depend on these members, as the rules of graphs see them, each with the edge to it.
SELECT
    edges.parent, edges.tolerates,
    jobs.id, jobs.state, members.node, members.required, jobs.reason, members.on_failure, members.is_gate, members.needs,
    members.waits, members.inputs, jobs.is_stub, members.is_suspended, jobs.cancel_requested
FROM json_each(:places) AS place
CROSS JOIN holdfast_edges AS edges ON edges.parent = substr(:items, 72 * place.value + 1, 16)
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = edges.child
CROSS JOIN holdfast_members AS members ON members.job = edges.child
WHERE edges.parent_flow IS NOT NULL
ORDER BY place.value, edges.child;
