-- Return the workflow of each of these jobs that exists; NULL: it is a plain one.
-- :ids of jobs.
SELECT asked.id, job.flow FROM unnest(:ids::uuid[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT pending.flow FROM holdfast.pending AS pending WHERE pending.id = asked.id
    UNION ALL
    SELECT active.flow FROM holdfast.active AS active WHERE active.id = asked.id
    UNION ALL
    SELECT over.flow FROM holdfast.finished AS over WHERE over.id = asked.id
    LIMIT 1
) AS job;
