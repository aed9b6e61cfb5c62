-- Renew the leases that have not ended, even expired ones: no supervisor has ended them.
UPDATE holdfast_leases SET
    -- include renewed(:monotonic, :boot, :clock, :is_draining)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND ended_at IS NULL;
