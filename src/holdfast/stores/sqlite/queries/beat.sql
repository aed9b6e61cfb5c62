-- Renew those that have not ended, expired or not: nobody has judged them.
UPDATE holdfast_leases SET
    previous_at = iif(boot = :boot AND clock = :clock, beaten_at, NULL),
    beaten_at = :monotonic,
    expires_at = :monotonic + ttl,
    boot = :boot,
    clock = :clock,
    beats = beats + 1,
    is_draining = max(is_draining, :is_draining)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND ended_at IS NULL;
