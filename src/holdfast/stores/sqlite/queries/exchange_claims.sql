-- Return the jobs that one claim took, in its order. The claim id names them, so that this may be read after the write.
-- The last claim of a lease has its highest claim numbers: older active jobs are not read.
SELECT
    id, claim_number, task, state, attempt, failures, crashes, checkpoint, rescue, hook_due_at, queue, key, priority, extra,
    flow, iif(flow IS NULL, NULL, (SELECT members.inputs FROM holdfast_members AS members WHERE members.job = id)),
    claimed_at - available_at,
    coalesce(payload, (SELECT payloads.payload FROM holdfast_payloads AS payloads WHERE payloads.job = id))
FROM (
    SELECT id, claim_id, claim_number, task, state, attempt, failures, crashes, checkpoint, rescue, hook_due_at, queue, key, priority, extra, payload,
        flow, claimed_at, available_at
    FROM holdfast_jobs
    WHERE lease = :lease AND state IN ('claimed', 'running')
    ORDER BY claim_number DESC
    LIMIT :room
)
WHERE claim_id = :claim_id
ORDER BY claim_number;
