-- Return the leases that have not ended, oldest first, each with its number of jobs.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    id, worker, process, timing, (extract(epoch FROM now - expires_at) * 1000000)::bigint AS overdue,
    renewals || ':' || extract(epoch FROM expires_at) AS seen, (extract(epoch FROM now - opened_at) * 1000000)::bigint AS age,
    (SELECT count(*) FROM holdfast.active WHERE active.lease = leases.id) AS holds,
    (
        SELECT count(*) FROM holdfast.active AS job WHERE job.lease = leases.id AND job.state = 'claimed' AND NOT -- include has_begun(job)
    ) AS claimed,
    is_draining, false AS is_ended, end_reason, queues, tasks, grace, slots, is_isolated, declares
FROM clock CROSS JOIN holdfast.leases
WHERE ended_at IS NULL
ORDER BY opened_at, id
