-- What one claim call took, in its order; its claim id names it, so that this may be read after the write.
-- The newest numbers of the lease are its last claim's: older holds are not looked at.
SELECT
    id, claim_number, task, state, attempt, failures, crashes, checkpoint, rescue, hook_due_at, queue,
    coalesce(payload, (SELECT payloads.payload FROM holdfast_payloads AS payloads WHERE payloads.job = id))
FROM (
    SELECT id, claim_id, claim_number, task, state, attempt, failures, crashes, checkpoint, rescue, hook_due_at, queue, payload
    FROM holdfast_jobs
    WHERE lease = :lease AND state IN ('claimed', 'running')
    ORDER BY claim_number DESC
    LIMIT :room
)
WHERE claim_id = :claim_id
ORDER BY claim_number;
