-- Return all members of a workflow with their parents, in the order in which they were added, as the rules of graphs see them. Each row also
-- has the state of the workflow, and the time.
-- :flow.
SELECT
    members.job AS id, job.state, members.node, members.required, job.reason, members.on_failure, members.is_gate, members.needs,
    members.waits, members.inputs, job.is_stub, parents.ids AS parents, parents.tolerates, flows.paused_at, flows.ended_for,
    flows.deadline_at, clock_timestamp() AS now
FROM holdfast.flows AS flows
JOIN holdfast.members AS members ON members.flow = flows.id
CROSS JOIN LATERAL (
    SELECT pending.state, NULL AS reason, false AS is_stub FROM holdfast.pending AS pending WHERE pending.id = members.job
    UNION ALL
    SELECT active.state, NULL, false FROM holdfast.active AS active WHERE active.id = members.job
    UNION ALL
    SELECT over.state, over.reason, over.is_stub FROM holdfast.finished_other AS over WHERE over.id = members.job
    LIMIT 1
) AS job
CROSS JOIN LATERAL (
    SELECT array_agg(edges.parent ORDER BY edges.parent) AS ids, array_agg(edges.tolerates ORDER BY edges.parent) AS tolerates
    FROM holdfast.edges AS edges WHERE edges.child = members.job
    OFFSET 0
) AS parents
WHERE flows.id = :flow
ORDER BY members.position;
