-- Return running jobs of living leases that are past a limit of their task by ttl + grace of the lease, longest first.
-- :limit.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
late AS (
    SELECT
        active.claim_number, active.id AS job, timing,
        coalesce(now - started_at - (timeout + ttl + grace) * interval '1 second', '0') AS of_timeout,
        coalesce(now - coalesce(last_moved_at, started_at) - (progress_within + ttl + grace) * interval '1 second', '0') AS of_progress
    FROM clock CROSS JOIN holdfast.active JOIN holdfast.leases ON leases.id = active.lease
    WHERE (progress_within IS NOT NULL OR timeout IS NOT NULL)
        AND started_at < now
        AND state = 'running'
        AND ended_at IS NULL
),
worst AS MATERIALIZED (
    SELECT * FROM late
    WHERE of_timeout > '0' OR of_progress > '0'
    ORDER BY greatest(of_timeout, of_progress) DESC, claim_number
    LIMIT :limit
)
SELECT
    id, claim_id, active.claim_number, lease, worker, task, queue, state, attempt, failures, crashes, policy, cancel_requested,
    CASE WHEN of_timeout >= of_progress THEN 'timed_out' ELSE 'stalled' END AS charge, timing
FROM worst JOIN holdfast.active ON active.id = worst.job AND active.claim_number = worst.claim_number
ORDER BY greatest(of_timeout, of_progress) DESC, active.claim_number
