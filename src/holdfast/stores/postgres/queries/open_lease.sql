-- Open the lease of a new incarnation, for its ttl from now. A second copy renews it; an ended lease stays ended.
-- :lease, :worker, :process, :timing; :ttl and :grace in seconds; :queues, :tasks, :slots, :is_isolated, :declares.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO holdfast.leases AS lease (
    id, worker, process, timing, ttl, grace, queues, tasks, slots, is_isolated, declares, opened_at, renewed_at, expires_at
)
SELECT :lease, :worker, :process, :timing, :ttl, :grace, :queues, :tasks, :slots, :is_isolated, :declares, now, now, now + :ttl * interval '1 second'
FROM clock
ON CONFLICT (id) DO UPDATE SET
    previous_renewal_at = lease.renewed_at,
    renewed_at = excluded.renewed_at,
    expires_at = excluded.renewed_at + lease.ttl * interval '1 second',
    renewals = lease.renewals + 1
WHERE lease.ended_at IS NULL
RETURNING id
