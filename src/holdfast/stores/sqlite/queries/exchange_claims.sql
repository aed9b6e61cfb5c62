-- What one claim call took, in its order; its claim id names it, so that this may be read after the write.
-- The newest numbers of the lease are its last claim's: older holds are not looked at.
SELECT
    id, number, task, state, attempt, failures, crashes, checkpoint, rescue, hook_due_at, queue,
    coalesce(payload, (SELECT bodies.payload FROM holdfast_bodies AS bodies WHERE bodies.job = id))
FROM (
    SELECT id, claim, number, task, state, attempt, failures, crashes, checkpoint, rescue, hook_due_at, queue, payload
    FROM holdfast_jobs
    WHERE lease = :lease AND state IN ('claimed', 'running')
    ORDER BY number DESC
    LIMIT :room
)
WHERE claim = :claim
ORDER BY number;
