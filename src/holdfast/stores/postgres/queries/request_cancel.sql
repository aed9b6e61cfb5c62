-- Cancel waiting jobs, flag active ones, leave finished ones. Return each known job with its state; NULL: it moved since, ask again.
-- :ids of jobs. Unfinished members of workflows are left as they are, and returned with their workflow.
-- A job whose rescue hook is due is kept for at least HOOK_RETENTION.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

stopped AS (
    DELETE FROM holdfast.pending WHERE id = ANY(:ids::uuid[]) AND flow IS NULL RETURNING *
),

ended AS MATERIALIZED (
    SELECT over.*, clock.now, clock.now + over.life AS delete_after, CASE
            WHEN life >= interval '1 day' AND ((clock.now + life) AT TIME ZONE 'UTC')::date BETWEEN days.first AND days.last
            THEN ((clock.now + life) AT TIME ZONE 'UTC')::date
            ELSE '-infinity'
        END AS delete_day
    FROM clock CROSS JOIN holdfast.partition_days AS days CROSS JOIN (
        SELECT stopped.*, greatest(
            coalesce(substring(policy FROM '"retention":(\d{1,10}(?:\.\d{1,17})?(?:e-\d{1,2})?)[,}]')::double precision, 604800),
            CASE WHEN hook_due_at IS NULL THEN 0 ELSE 604800 END
        ) * interval '1 second' AS life
        FROM stopped
    ) AS over
),

finished AS (
    INSERT INTO holdfast.finished (
        id, delete_day, delete_after, state, claim_number, task, queue, key, priority, cancel_requested, attempt, failures,
        crashes, created_at, available_at,
        finished_at, expires_at, unique_key, tags, extra, policy, stage, fraction, message, progress_at, reason, error, rescue,
        hook_due_at, checkpoint, payload
    )
    SELECT
        id, delete_day, delete_after, 'cancelled', claim_number, task, queue, key, priority, false, attempt, failures, crashes,
        created_at, available_at,
        now, expires_at, unique_key, tags, extra, policy, stage, fraction, message, progress_at, 'BY_OPERATOR', error, rescue,
        hook_due_at, checkpoint, payload
    FROM ended
),

aged AS (
    UPDATE holdfast.attempts AS attempts SET delete_day = (SELECT ended.delete_day FROM ended WHERE ended.id = attempts.job)
    WHERE attempts.delete_day = '-infinity' AND attempts.job = ANY(ARRAY(
        SELECT id FROM ended WHERE attempt > 0 AND ended.delete_day <> '-infinity'
    ))
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(SELECT id FROM ended WHERE unique_key IS NOT NULL))
),

marked AS (
    UPDATE holdfast.active SET cancel_requested = true WHERE id = ANY(:ids::uuid[]) AND flow IS NULL
    RETURNING id, -- include state_of(active)
    AS state
)

SELECT seen.id, coalesce(seen.state, marked.state, CASE WHEN stopped.id IS NOT NULL THEN 'cancelled' END) AS state, seen.flow
FROM (
    SELECT id, NULL AS state, flow FROM holdfast.pending WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, NULL, flow FROM holdfast.active WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, state, NULL FROM holdfast.finished WHERE id = ANY(:ids::uuid[])
) AS seen
LEFT JOIN stopped ON stopped.id = seen.id
LEFT JOIN marked ON marked.id = seen.id;
