-- Return whether a lease drains; nothing if it has ended, or if there is none.
SELECT is_draining FROM holdfast_leases WHERE id = :lease AND ended_at IS NULL;
