-- Raise the voids of a lease that has not ended. started.sql returns through which claim number its jobs have started.
UPDATE holdfast_leases SET voids = max(voids, :voids) WHERE id = :lease AND ended_at IS NULL;
