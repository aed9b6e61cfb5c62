-- Renew the leases that have not ended, even expired ones: no supervisor has ended them.
UPDATE holdfast_leases SET
    previous_renewal_at = iif(boot = :boot AND clock = :clock, renewed_at, NULL),
    renewed_at = :monotonic,
    expires_at = :monotonic + ttl,
    boot = :boot,
    clock = :clock,
    renewals = renewals + 1,
    is_draining = max(is_draining, :is_draining)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND ended_at IS NULL;
