-- End waiting members without running them.
-- :ids of members (ascending); :kinds, for each the position of its end in :states, :reasons and :errors.
-- They are kept until their root is deleted. A root is kept for the retention of its workflow, and its unique key is free again. One whose
-- rescue hook is due is kept for at least HOOK_RETENTION.
-- Lock order: jobs, their keys.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

stopped AS (
    DELETE FROM holdfast.pending WHERE id = ANY(:ids::uuid[]) RETURNING *
),

finished AS (
    INSERT INTO holdfast.finished_other (
        id, delete_after, state, claim_number, task, queue, key, priority, cancel_requested, attempt, failures, crashes, created_at,
        available_at, finished_at, expires_at, unique_key, tags, extra, policy, stage, fraction, message, progress_at, reason, error,
        rescue, hook_due_at, checkpoint, payload, flow
    )
    SELECT
        id, CASE
            WHEN flow <> id THEN 'infinity'
            ELSE clock.now + greatest(
                coalesce(substring(policy FROM '"retention":(\d{1,10}(?:\.\d{1,17})?(?:e-\d{1,2})?)[,}]')::double precision, 604800),
                CASE WHEN hook_due_at IS NULL THEN 0 ELSE 604800 END
            ) * interval '1 second'
        END, (:states::text[])[kind], claim_number, task, queue, key, priority, coalesce(is_cancelled, false), attempt, failures, crashes, created_at,
        available_at, clock.now, expires_at, unique_key, tags, extra, policy, stage, fraction, message, progress_at,
        (:reasons::text[])[kind], coalesce((:errors::text[])[kind], error), rescue, hook_due_at, checkpoint, payload, flow
    FROM clock CROSS JOIN (
        SELECT
            stopped.*, (:kinds::integer[])[width_bucket(stopped.id, :ids::uuid[])] AS kind,
            (SELECT members.is_cancelled FROM holdfast.members AS members WHERE members.job = stopped.id) AS is_cancelled
        FROM stopped
    ) AS over
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(SELECT id FROM stopped WHERE unique_key IS NOT NULL))
)

SELECT id FROM stopped;
