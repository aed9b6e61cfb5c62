-- Running jobs of living leases that are ttl + grace of that lease past a limit of their task, longest first.
-- $1 how many
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
late AS (
    SELECT
        active.number, active.id AS job, timing,
        coalesce(now - started_at - (timeout + ttl + grace) * interval '1 second', '0') AS of_timeout,
        coalesce(now - coalesce(moved_at, started_at) - (progress_within + ttl + grace) * interval '1 second', '0') AS of_progress
    FROM clock CROSS JOIN holdfast.active JOIN holdfast.leases ON leases.id = active.lease
    WHERE (progress_within IS NOT NULL OR timeout IS NOT NULL)
        AND started_at < now
        AND state = 'running'
        AND ended_at IS NULL
),
worst AS MATERIALIZED (
    SELECT * FROM late
    WHERE of_timeout > '0' OR of_progress > '0'
    ORDER BY greatest(of_timeout, of_progress) DESC, number
    LIMIT $1
)
SELECT
    id, claim, active.number, lease, worker, task, queue, state, attempt, failures, crashes, policy, is_marked,
    CASE WHEN of_timeout >= of_progress THEN 'timed_out' ELSE 'stalled' END AS charge, timing
FROM worst JOIN holdfast.active ON active.id = worst.job AND active.number = worst.number
ORDER BY greatest(of_timeout, of_progress) DESC, active.number
