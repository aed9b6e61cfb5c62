-- Return those of these jobs that belong to workflows, as far as their moves depend on it.
-- :ids of jobs.
SELECT
    asked.id, members.flow, job.state, members.on_failure, members.is_gate, members.is_suspended, job.is_paused, job.is_active
FROM unnest(:ids::uuid[]) WITH ORDINALITY AS asked (id, place)
CROSS JOIN LATERAL (
    SELECT members.flow, members.on_failure, members.is_gate, members.is_suspended FROM holdfast.members AS members WHERE members.job = asked.id OFFSET 0
) AS members
CROSS JOIN LATERAL (
    SELECT pending.state, coalesce(pending.held_for = 'pause', false) AS is_paused, false AS is_active
    FROM holdfast.pending AS pending WHERE pending.id = asked.id
    UNION ALL
    SELECT active.state, false, true FROM holdfast.active AS active WHERE active.id = asked.id
    UNION ALL
    SELECT over.state, false, false FROM holdfast.finished_other AS over WHERE over.id = asked.id
    LIMIT 1
) AS job
ORDER BY asked.place;
