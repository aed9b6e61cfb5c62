-- A new incarnation, alive from now for its ttl; a second copy renews it, one that has ended stays so.
-- $1 id, $2 worker, $3 process, $4 timing, $5 ttl and $6 grace in seconds, $7 queues, $8 tasks, $9 slots, $10 is_isolated
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO holdfast.leases AS lease (
    id, worker, process, timing, ttl, grace, queues, tasks, slots, is_isolated, opened_at, renewed_at, expires_at
)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now, now, now + $5 * interval '1 second'
FROM clock
ON CONFLICT (id) DO UPDATE SET
    previous_renewal_at = lease.renewed_at,
    renewed_at = excluded.renewed_at,
    expires_at = excluded.renewed_at + lease.ttl * interval '1 second',
    renewals = lease.renewals + 1
WHERE lease.ended_at IS NULL
RETURNING id
