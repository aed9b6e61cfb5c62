-- Return the members of a flow as the rules of graphs see them, in the order in which they were added.
SELECT
    jobs.id, jobs.state, members.node, members.required, jobs.reason, members.on_failure, members.is_gate, members.needs,
    members.waits, members.inputs, jobs.is_stub, members.is_suspended, jobs.cancel_requested
FROM holdfast_members AS members
JOIN holdfast_jobs AS jobs ON jobs.id = members.job
WHERE members.flow = :flow
ORDER BY members.position;
