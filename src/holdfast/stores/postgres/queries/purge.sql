-- At most $2 jobs that wait in the queue $1, and were enqueued by $3 or else by now, are gone without a trace; those that are
-- being claimed just now are left.
WITH RECURSIVE bound AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) AS until),

tasks (name) AS (
    -- A loose index scan: from one task straight to the next.
    SELECT min(task) FROM holdfast.pending WHERE state = 'available'
    UNION ALL
    SELECT (SELECT min(task) FROM holdfast.pending WHERE state = 'available' AND task > name) FROM tasks WHERE name IS NOT NULL
),

gone AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        SELECT job.ctid FROM holdfast.pending AS job
        WHERE job.ctid = ANY(ARRAY(
                SELECT candidate.place
                FROM tasks CROSS JOIN LATERAL (
                    SELECT waiting.ctid AS place FROM holdfast.pending AS waiting
                    WHERE waiting.state = 'available' AND waiting.task = tasks.name AND waiting.queue = $1
                        AND waiting.created_at <= (SELECT until FROM bound)
                    LIMIT $2
                ) AS candidate
                LIMIT $2
            ))
            -- Again, for whoever is changed just now; said so that no index is used for it.
            AND (job.state = 'available') IS TRUE
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, task, unique_key
),

attempts AS (
    DELETE FROM holdfast.attempts WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

bodies AS (
    DELETE FROM holdfast.bodies WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(SELECT id FROM gone WHERE unique_key IS NOT NULL))
)

SELECT (SELECT count(*) FROM gone) AS gone, until FROM bound;
