-- vertex(): a member as the rules of graphs see it. ``parents``, which follows, has the edges that lead to it.
members.job AS id, job.state, members.node, members.required, job.reason, members.on_failure, members.is_gate, members.needs,
members.waits, members.inputs, job.is_stub, members.is_suspended, members.is_cancelled, parents.ids AS parents, parents.tolerates,
parents.are_children, parents.flows AS parent_flows
FROM holdfast.members AS members
CROSS JOIN LATERAL (
    SELECT pending.state, NULL AS reason, false AS is_stub FROM holdfast.pending AS pending WHERE pending.id = members.job
    UNION ALL
    SELECT active.state, NULL, false FROM holdfast.active AS active WHERE active.id = members.job
    UNION ALL
    SELECT over.state, over.reason, over.is_stub FROM holdfast.finished_other AS over WHERE over.id = members.job
    LIMIT 1
) AS job
