-- Return ended leases that still have jobs, then those past their expiry, longest overdue first. A lease without a row that has active
-- jobs counts as ended.
-- :limit.
-- A loose index scan finds the leases that have jobs: from one lease straight to the next, for any number of jobs.
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
holders (id) AS (
    (SELECT lease FROM holdfast.active ORDER BY lease LIMIT 1)
    UNION ALL
    SELECT (SELECT lease FROM holdfast.active WHERE lease > holders.id ORDER BY lease LIMIT 1)
    FROM holders
    WHERE holders.id IS NOT NULL
),
found AS MATERIALIZED (
    SELECT holders.id, true AS is_ended, coalesce(leases.expires_at, now) AS expires_at
    FROM clock CROSS JOIN holders LEFT JOIN holdfast.leases ON leases.id = holders.id
    WHERE holders.id IS NOT NULL AND (leases.id IS NULL OR leases.ended_at IS NOT NULL)
    UNION ALL
    SELECT id, false, expires_at
    FROM clock CROSS JOIN holdfast.leases
    WHERE ended_at IS NULL AND expires_at < now
    ORDER BY 2 DESC, 3, 1
    LIMIT :limit
)
SELECT
    found.id, worker, process, timing, (extract(epoch FROM now - found.expires_at) * 1000000)::bigint AS overdue,
    renewals || ':' || extract(epoch FROM leases.expires_at) AS seen,
    (extract(epoch FROM now - coalesce(opened_at, now)) * 1000000)::bigint AS age,
    (SELECT count(*) FROM holdfast.active WHERE active.lease = found.id) AS holds,
    (
        SELECT count(*) FROM holdfast.active AS job WHERE job.lease = found.id AND job.state = 'claimed' AND NOT -- include has_begun(job)
    ) AS claimed,
    is_draining, is_ended, end_reason, queues, tasks, grace, slots, is_isolated, declares
FROM clock CROSS JOIN found LEFT JOIN holdfast.leases ON leases.id = found.id
ORDER BY is_ended DESC, found.expires_at, found.id
