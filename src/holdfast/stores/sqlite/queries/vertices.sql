-- Return members as the rules of graphs see them.
SELECT
    jobs.id, jobs.state, members.node, members.required, jobs.reason, members.on_failure, members.is_gate, members.needs,
    members.waits, members.inputs, jobs.is_stub, members.is_suspended, jobs.cancel_requested
FROM json_each(:places) AS place
CROSS JOIN holdfast_members AS members ON members.job = substr(:items, 72 * place.value + 1, 16)
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = members.job;
