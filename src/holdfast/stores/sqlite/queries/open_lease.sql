-- Open the lease of a new incarnation, for its ttl from now. A second copy renews it; an ended lease stays ended.
INSERT INTO holdfast_leases (
    id, worker, process, timing, ttl, queues, tasks, grace, slots, is_isolated, declares, boot, clock, opened_at, renewed_at, expires_at
) VALUES (
    :lease, :worker, :process, :timing, :ttl, :queues, :tasks, :grace, :slots, :is_isolated, :declares, :boot, :clock, :wall,
    :monotonic, :monotonic + :ttl
)
ON CONFLICT (id) DO UPDATE SET
    boot = excluded.boot,
    clock = excluded.clock,
    renewed_at = excluded.renewed_at,
    expires_at = excluded.renewed_at + ttl,
    renewals = renewals + 1
WHERE ended_at IS NULL;
