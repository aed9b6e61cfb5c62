-- Return whether there are limits, and whether a lease is an isolated one.
-- :lease.
SELECT
    EXISTS (SELECT FROM holdfast.limits) AS has_limits,
    EXISTS (SELECT FROM holdfast.leases AS leases WHERE leases.id = :lease AND leases.is_isolated) AS is_isolated;
