-- Why a lease ended; NULL while it lives.
SELECT iif(ended_at IS NULL, NULL, why) FROM leases WHERE id = :lease;
