-- Let a lease drain that has not ended: the answer to its next beat passes it on. Return whether it did before; nothing if it has ended.
-- :lease.
-- The write touches no key: claims, which lock their lease against its end, do not block it.
WITH known AS MATERIALIZED (
    SELECT id, is_draining FROM holdfast.leases WHERE id = :lease AND ended_at IS NULL FOR NO KEY UPDATE
)
UPDATE holdfast.leases AS lease SET is_draining = true
FROM known
WHERE lease.id = known.id
RETURNING known.is_draining AS was_draining
