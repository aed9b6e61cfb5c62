-- Whether a lease has ended, and why.
SELECT ended_at IS NOT NULL, why FROM holdfast_leases WHERE id = :lease;
