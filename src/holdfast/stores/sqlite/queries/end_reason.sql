-- Return whether a lease has ended, why, and whether its worker was asked to drain.
SELECT ended_at IS NOT NULL, end_reason, is_draining FROM holdfast_leases WHERE id = :lease;
