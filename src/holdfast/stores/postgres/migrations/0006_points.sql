-- The progress of an attempt: at most 32 points as JSON, on the row while its code runs, then on the record of the attempt.
ALTER TABLE holdfast.active ADD COLUMN points text;
ALTER TABLE holdfast.finished ADD COLUMN points text;
ALTER TABLE holdfast.attempts ADD COLUMN points text;

-- The view of 0002, with the points.
CREATE OR REPLACE VIEW holdfast.jobs AS
SELECT
    id, state, NULL::uuid AS claim_id, claim_number, NULL::uuid AS lease, NULL::text AS worker, task, queue, key, priority,
    coalesce(flow IS NOT NULL AND (SELECT members.is_cancelled FROM holdfast.members AS members WHERE members.job = pending.id), false) AS cancel_requested,
    false AS is_stub, attempt, failures, crashes, created_at, available_at,
    NULL::timestamptz AS claimed_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, expires_at,
    unique_key, tags, extra, policy, stage, fraction, message, progress_at, NULL::text AS reason, error, rescue, hook_due_at,
    awaits, nullif(held_for, 'pause') AS held_for, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = pending.id)) AS payload,
    NULL::bytea AS result, 'pending' AS place, flow, CASE
        WHEN flow IS NOT NULL THEN (
            SELECT json_build_array(node, required, on_failure, is_gate::integer, inputs::json, needs, waits, coalesce(state = 'held' AND held_for = 'pause', false)::integer, is_suspended::integer)::text
            FROM holdfast.members AS members WHERE members.job = pending.id
        )
    END AS member, NULL::text AS points
FROM holdfast.pending
UNION ALL
SELECT
    id, CASE WHEN has_begun THEN 'running' ELSE state END, claim_id, claim_number, lease, worker, task, queue, key, priority,
    cancel_requested, false, attempt + has_begun::integer, failures, crashes,
    created_at, available_at, claimed_at, CASE WHEN has_begun THEN claimed_at ELSE started_at END, NULL::timestamptz, expires_at,
    unique_key, tags, extra, policy, stage,
    fraction, message, progress_at, NULL::text, error, rescue, hook_due_at, NULL::text, NULL::text, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = active.id)),
    NULL::bytea, 'active', flow, CASE
        WHEN flow IS NOT NULL THEN (
            SELECT json_build_array(node, required, on_failure, is_gate::integer, inputs::json, needs, waits, 0, is_suspended::integer)::text
            FROM holdfast.members AS members WHERE members.job = active.id
        )
    END, points
FROM holdfast.active CROSS JOIN LATERAL (
    SELECT active.state = 'claimed' AND active.claim_number <= coalesce((
        SELECT lease_starts.started FROM holdfast.lease_starts WHERE lease_starts.lease = active.lease
    ), 0) AS has_begun
) AS begun
UNION ALL
SELECT
    id, state, claim_id, claim_number, NULL::uuid, worker, task, queue, key, priority, cancel_requested, is_stub, attempt,
    failures, crashes, created_at, available_at, claimed_at, started_at, finished_at, expires_at, unique_key, tags, extra, policy, stage, fraction,
    message, progress_at, reason, error, rescue, hook_due_at, NULL::text, NULL::text, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = finished.id)),
    result, 'finished', flow, CASE
        WHEN flow IS NOT NULL THEN (
            SELECT json_build_array(node, required, on_failure, is_gate::integer, inputs::json, needs, waits, 0, is_suspended::integer)::text
            FROM holdfast.members AS members WHERE members.job = finished.id
        )
    END, points
FROM holdfast.finished;
