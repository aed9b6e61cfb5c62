-- Delete waiting jobs of a queue with all their records; skip a job that another session has locked, or one of its rows.
-- :queue; :limit; :until when they were enqueued, NULL: by now.
WITH RECURSIVE bound AS MATERIALIZED (SELECT coalesce(:until, clock_timestamp()) AS until),

rings (task, priority) AS (
    -- A loose index scan goes from one task and priority straight to the next.
    (SELECT task, priority FROM holdfast.pending WHERE state = 'available' ORDER BY task, priority LIMIT 1)
    UNION ALL
    SELECT next.task, next.priority
    FROM rings CROSS JOIN LATERAL (
        SELECT task, priority FROM holdfast.pending
        WHERE state = 'available' AND (task, priority) > (rings.task, rings.priority)
        ORDER BY task, priority LIMIT 1
    ) AS next
),

chosen AS MATERIALIZED (
    SELECT job.id, job.ctid AS place, job.task, job.unique_key FROM holdfast.pending AS job
    WHERE job.ctid = ANY(ARRAY(
            SELECT candidate.place
            FROM rings CROSS JOIN LATERAL (
                SELECT waiting.ctid AS place FROM holdfast.pending AS waiting
                WHERE waiting.state = 'available' AND waiting.task = rings.task AND waiting.priority = rings.priority
                    AND waiting.queue = :queue AND waiting.created_at <= (SELECT until FROM bound) AND waiting.flow IS NULL
                LIMIT :limit
            ) AS candidate
            LIMIT :limit
        ))
        -- Check again under the lock: the row may have changed. IS TRUE keeps the planner off the index.
        AND (job.state = 'available') IS TRUE
    FOR UPDATE SKIP LOCKED
),

doomed AS MATERIALIZED (
    SELECT keys.job, keys.tableoid AS origin, keys.ctid AS place
    FROM holdfast.unique_keys AS keys INNER JOIN chosen
        ON keys.task = chosen.task AND keys.key = chosen.unique_key
    UNION ALL
    SELECT job, tableoid, ctid FROM holdfast.payloads WHERE job = ANY(ARRAY(SELECT id FROM chosen))
    UNION ALL
    SELECT job, tableoid, ctid FROM holdfast.attempts WHERE job = ANY(ARRAY(SELECT id FROM chosen))
    UNION ALL
    SELECT job, tableoid, ctid FROM holdfast.steps WHERE job = ANY(ARRAY(SELECT id FROM chosen))
    UNION ALL
    SELECT job, tableoid, ctid FROM holdfast.signals WHERE job = ANY(ARRAY(SELECT id FROM chosen))
),

free_keys AS MATERIALIZED (
    SELECT keys.job, keys.tableoid AS origin, keys.ctid AS place
    FROM holdfast.unique_keys AS keys INNER JOIN chosen
        ON keys.task = chosen.task AND keys.key = chosen.unique_key
    FOR UPDATE OF keys SKIP LOCKED
),

free_payloads AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.payloads WHERE job = ANY(ARRAY(SELECT id FROM chosen))
    FOR UPDATE SKIP LOCKED
),

free_attempts AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.attempts WHERE job = ANY(ARRAY(SELECT id FROM chosen))
    FOR UPDATE SKIP LOCKED
),

free_steps AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.steps WHERE job = ANY(ARRAY(SELECT id FROM chosen))
    FOR UPDATE SKIP LOCKED
),

free_signals AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.signals WHERE job = ANY(ARRAY(SELECT id FROM chosen))
    FOR UPDATE SKIP LOCKED
),

in_use AS MATERIALIZED (
    SELECT job FROM (
        SELECT * FROM doomed
        EXCEPT (
            SELECT * FROM free_keys
            UNION ALL
            SELECT * FROM free_payloads
            UNION ALL
            SELECT * FROM free_attempts
            UNION ALL
            SELECT * FROM free_steps
            UNION ALL
            SELECT * FROM free_signals
        )
    ) AS locked
),

gone AS (
    DELETE FROM holdfast.pending
    WHERE ctid = ANY(ARRAY(SELECT place FROM chosen WHERE id <> ALL(ARRAY(SELECT job FROM in_use))))
    RETURNING id, task, unique_key
),

attempts AS (
    DELETE FROM holdfast.attempts WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

payloads AS (
    DELETE FROM holdfast.payloads WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

steps AS (
    DELETE FROM holdfast.steps WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

signals AS (
    DELETE FROM holdfast.signals WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

freed AS (
    DELETE FROM holdfast.unique_keys AS keys USING gone
    WHERE keys.task = gone.task AND keys.key = gone.unique_key AND keys.job = gone.id
)

SELECT (SELECT count(*) FROM gone) AS gone, until FROM bound;
