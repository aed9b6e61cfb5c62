-- Raise the voids of a lease that has not ended, and return the claim number through which its jobs have started.
-- :lease, :voids.
-- Lock order: the lease, so that this waits for claims under way and a later one sees the new number; its starts: this waits for a
-- start_through under way and sees it, or that one sees this.
WITH raised AS (
    UPDATE holdfast.leases AS lease SET voids = greatest(lease.voids, :voids::bigint)
    WHERE lease.id = (SELECT id FROM holdfast.leases WHERE id = :lease AND ended_at IS NULL FOR UPDATE)
    RETURNING lease.id
)

INSERT INTO holdfast.lease_starts AS known (lease, started, voids)
SELECT raised.id, 0, :voids::bigint FROM raised
ON CONFLICT (lease) DO UPDATE SET voids = greatest(known.voids, excluded.voids)
RETURNING started
