-- Return running jobs of living leases that are past a limit of their task by ttl + grace of the lease, longest first.
-- :limit. A job that another session has locked is left out: its owner may be waiting for the lock with an outcome.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    job.id, claim_id, claim_number, job.lease, job.worker, task, queue, 'running' AS state,
    attempt + (state = 'claimed')::integer AS attempt, failures, crashes, policy, cancel_requested, job.flow,
    CASE WHEN points IS NOT NULL THEN fraction END AS fraction,
    CASE WHEN of_timeout >= of_progress THEN 'timed_out' ELSE 'stalled' END AS charge, timing
FROM clock CROSS JOIN holdfast.active AS job JOIN holdfast.leases ON leases.id = job.lease
LEFT JOIN holdfast.lease_starts AS known ON known.lease = job.lease
CROSS JOIN LATERAL (
    SELECT
        coalesce(now - coalesce(started_at, claimed_at) - (timeout + ttl + grace) * interval '1 second', '0') AS of_timeout,
        coalesce(now - coalesce(last_moved_at, started_at, claimed_at) - (progress_within + ttl + grace) * interval '1 second', '0') AS of_progress
) AS late
WHERE (progress_within IS NOT NULL OR timeout IS NOT NULL)
    AND claimed_at < now
    AND (state = 'running' OR claim_number <= known.started)
    AND ended_at IS NULL
    AND (of_timeout > '0' OR of_progress > '0')
ORDER BY greatest(of_timeout, of_progress) DESC, claim_number
LIMIT :limit
FOR UPDATE OF job SKIP LOCKED
