-- Block finished members again, with fresh budgets; attempts and claim numbers continue. They wait for their parents, not for children.
-- :ids of members; :is_fresh, whether they lose their checkpoint and their steps.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

back AS (
    DELETE FROM holdfast.finished_other WHERE id = ANY(:ids::uuid[]) RETURNING *
),

-- Record the token, which the row is about to lose: a repeated settle under it must still be recognised.
records AS (
    INSERT INTO holdfast.attempts (job, claim_number, claim_id, requested_state, outcome, attempt, worker, started_at, ended_at, error, points)
    SELECT id, claim_number, claim_id, state, state, attempt, coalesce(worker, ''), started_at, finished_at, error, points
    FROM back
    WHERE claim_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM holdfast.attempts AS known
        WHERE known.job = back.id AND known.claim_number = back.claim_number AND known.claim_id = back.claim_id OFFSET 0
    )
),

waiting AS (
    INSERT INTO holdfast.pending (
        id, task, queue, key, priority, state, available_at, claim_number, attempt, created_at, unique_key, tags, extra, policy, stage,
        fraction, message, progress_at, rescue, hook_due_at, checkpoint, payload, flow
    )
    SELECT
        id, task, queue, key, priority, 'blocked', (SELECT now FROM clock), claim_number, attempt, created_at, unique_key, tags, extra,
        policy, stage, fraction, message, progress_at, rescue, hook_due_at, CASE WHEN NOT :is_fresh::boolean THEN checkpoint END, payload,
        flow
    FROM back
),

alone AS (
    UPDATE holdfast.members SET is_suspended = false, is_cancelled = false
    WHERE job = ANY(ARRAY(SELECT id FROM back)) AND (is_suspended OR is_cancelled)
),

forgotten AS (
    DELETE FROM holdfast.steps WHERE :is_fresh::boolean AND job = ANY(ARRAY(SELECT id FROM back))
)

SELECT id FROM back;
