-- Whether a lease has ended.
SELECT ended_at IS NOT NULL FROM leases WHERE id = :lease;
