-- Let a lease drain that has not ended: the answer to its next beat passes it on.
UPDATE holdfast_leases SET is_draining = true WHERE id = :lease AND ended_at IS NULL;
