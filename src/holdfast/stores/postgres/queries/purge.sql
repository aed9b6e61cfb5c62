-- At most $2 jobs that wait in the queue $1 are gone without a trace; those that are being claimed just now are left.
WITH RECURSIVE tasks (name) AS (
    -- A loose index scan: from one task straight to the next.
    SELECT min(task) FROM holdfast.pending WHERE state = 'available'
    UNION ALL
    SELECT (SELECT min(task) FROM holdfast.pending WHERE state = 'available' AND task > name) FROM tasks WHERE name IS NOT NULL
),

gone AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        SELECT job.ctid
        FROM tasks JOIN holdfast.pending AS job ON job.task = tasks.name
        WHERE job.queue = $1 AND job.state = 'available'
        LIMIT $2
        FOR UPDATE OF job SKIP LOCKED
    ))
    RETURNING id, task, unique_key
),

attempts AS (
    DELETE FROM holdfast.attempts USING gone WHERE attempts.job = gone.id
),

bodies AS (
    DELETE FROM holdfast.bodies USING gone WHERE bodies.job = gone.id
),

freed AS (
    DELETE FROM holdfast.unique_keys AS keys
    USING gone
    WHERE keys.task = gone.task AND keys.key = gone.unique_key AND keys.job = gone.id
)

SELECT count(*) AS gone FROM gone;
