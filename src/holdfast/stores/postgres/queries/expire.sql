-- Fail waiting jobs that expired before their first start, oldest expiry first. They have no attempts.
-- :limit. Members of workflows are left as they are, and returned with their workflow.
-- A job that another session has locked, or its key, does not delay the others.
-- Lock order: waiting jobs, their keys.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

due AS MATERIALIZED (
    SELECT ctid AS place, id, task, claimable_until, unique_key IS NOT NULL AS is_keyed, flow FROM holdfast.pending
    WHERE claimable_until > '-infinity' AND state = 'available' AND claimable_until <= (SELECT now FROM clock)
    ORDER BY claimable_until, id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),

-- include keys(due),

late AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        SELECT due.place FROM due
        WHERE due.flow IS NULL AND due.id <> ALL(ARRAY(
            -- include locked_keys(due)
        ))
    ))
    RETURNING *
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(SELECT id FROM late WHERE unique_key IS NOT NULL))
),

finished AS (
    INSERT INTO holdfast.finished (
        id, delete_day, delete_after, state, claim_number, task, queue, key, priority, cancel_requested, attempt, failures,
        crashes, created_at, available_at,
        finished_at, expires_at, unique_key, tags, extra, policy, stage, fraction, message, progress_at, reason, error, rescue,
        hook_due_at, checkpoint, payload
    )
    SELECT
        id, CASE
            WHEN life >= interval '1 day' AND ((clock.now + life) AT TIME ZONE 'UTC')::date BETWEEN days.first AND days.last
            THEN ((clock.now + life) AT TIME ZONE 'UTC')::date
            ELSE '-infinity'
        END, clock.now + life, 'failed', claim_number, task, queue, key, priority, false, attempt, failures, crashes, created_at,
        available_at,
        clock.now, expires_at, unique_key, tags, extra, policy, stage, fraction, message, progress_at, 'EXPIRED', error, rescue,
        hook_due_at, checkpoint, payload
    FROM clock CROSS JOIN holdfast.partition_days AS days CROSS JOIN (
        SELECT late.*, coalesce(
            substring(policy FROM '"retention_failed":(\d{1,10}(?:\.\d{1,17})?(?:e-\d{1,2})?)[,}]')::double precision,
            substring(policy FROM '"retention":(\d{1,10}(?:\.\d{1,17})?(?:e-\d{1,2})?)[,}]')::double precision, 604800
        ) * interval '1 second' AS life
        FROM late
    ) AS over
)

SELECT id, task, flow FROM (
    SELECT id, task, flow, claimable_until FROM late
    UNION ALL
    SELECT id, task, flow, claimable_until FROM due WHERE due.flow IS NOT NULL
) AS found
ORDER BY claimable_until, id;
