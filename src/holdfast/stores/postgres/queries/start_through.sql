-- Start the claimed jobs of a lease through a claim number, unless the lease has ended or has another number of voids. Return the lease
-- if it landed.
-- :lease, :number, :voids.
-- It touches no job and no row of leases: their states follow from the number, and no beat has to skip the lease.
-- Lock order: the lease, so that it does not end before this is visible; its starts.
WITH alive AS MATERIALIZED (
    SELECT lease.id FROM holdfast.leases AS lease WHERE lease.id = :lease AND lease.ended_at IS NULL FOR KEY SHARE
)

INSERT INTO holdfast.lease_starts AS known (lease, started, voids)
SELECT alive.id, :number::bigint, 0 FROM alive
WHERE :voids = 0 OR EXISTS (SELECT FROM holdfast.lease_starts AS before WHERE before.lease = alive.id)
ON CONFLICT (lease) DO UPDATE SET started = greatest(known.started, excluded.started)
WHERE known.voids = :voids::bigint
RETURNING lease
