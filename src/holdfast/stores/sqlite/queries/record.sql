-- A job's row as records.py reads it: the same columns for every query that reads whole jobs.
CREATE TEMP VIEW holdfast_record (
    id, claim_id, claim_number, task, queue, key, priority, state, payload, policy, attempt, failures, crashes, created_at,
    available_at,
    claimed_at, started_at, finished_at, reason, error, result, lease, worker, stage, fraction, message, progress_at,
    checkpoint, cancel_requested, tags, extra, expires_at, unique_key, is_stub, rescue, hook_due_at, awaits, held_for, flow, member,
    points
) AS
SELECT
    id, claim_id, claim_number, task, queue, key, priority, state,
    coalesce(payload, (SELECT payloads.payload FROM holdfast_payloads AS payloads WHERE payloads.job = id)),
    policy, attempt, failures, crashes, created_at, available_at, claimed_at, started_at, finished_at, reason, error,
    result, lease, worker, stage, fraction, message, progress_at, checkpoint, cancel_requested, tags, extra, expires_at,
    unique_key, is_stub, rescue, hook_due_at,
    iif(state IN ('available', 'held'), awaits, NULL), iif(state = 'held', held_for, NULL), flow,
    iif(flow IS NULL, NULL, (
        SELECT json_array(node, required, on_failure, is_gate, json(inputs), needs, waits, is_paused, is_suspended)
        FROM holdfast_members AS members WHERE members.job = id
    )), points
FROM holdfast_jobs;

-- call
SELECT 1;
