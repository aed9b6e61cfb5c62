-- Return the leases that have not ended, and ended or missing ones that still have jobs.
WITH holders AS (
    SELECT lease, count(*) AS holds, sum(state = 'claimed') AS claimed FROM holdfast_jobs WHERE state IN ('claimed', 'running') GROUP BY lease
)
SELECT
    leases.id, worker, process, timing, boot, clock, opened_at, expires_at, renewals || ':' || expires_at, coalesce(holds, 0),
    is_draining, ended_at IS NOT NULL, end_reason, queues, tasks, grace, slots, is_isolated, declares, coalesce(claimed, 0)
FROM holdfast_leases AS leases LEFT JOIN holders ON holders.lease = leases.id
WHERE ended_at IS NULL
UNION ALL
SELECT
    lease, coalesce(worker, ''), process, timing, boot, clock, opened_at, expires_at, renewals || ':' || expires_at, holds,
    is_draining, 1, end_reason, queues, tasks, grace, slots, is_isolated, declares, claimed
FROM holders LEFT JOIN holdfast_leases AS leases ON leases.id = holders.lease
WHERE leases.id IS NULL OR ended_at IS NOT NULL
ORDER BY opened_at, 1;
