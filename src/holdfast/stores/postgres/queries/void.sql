-- Raise the voids of a lease that has not ended, and return the claim number through which its jobs have started.
-- :lease, :voids.
-- Lock order: the lease, its starts: this waits for a start_through under way and sees it, or that one sees this.
WITH alive AS MATERIALIZED (
    SELECT lease.id FROM holdfast.leases AS lease WHERE lease.id = :lease AND lease.ended_at IS NULL FOR KEY SHARE
)

INSERT INTO holdfast.lease_starts AS known (lease, started, voids)
SELECT alive.id, 0, :voids::bigint FROM alive
ON CONFLICT (lease) DO UPDATE SET voids = greatest(known.voids, excluded.voids)
RETURNING started
