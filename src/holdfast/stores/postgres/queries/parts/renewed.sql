-- renewed(): renew the free leases of :leases that have not ended.
clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
free AS MATERIALIZED (
    SELECT leases.id FROM holdfast.leases WHERE leases.id = ANY (:leases::uuid[]) FOR NO KEY UPDATE SKIP LOCKED
),
renewed AS (
    UPDATE holdfast.leases SET
        previous_renewal_at = renewed_at,
        renewed_at = now,
        expires_at = now + ttl * interval '1 second',
        renewals = renewals + 1,
        is_draining = is_draining OR :is_draining
    FROM clock
    WHERE id = ANY (ARRAY(SELECT free.id FROM free)) AND ended_at IS NULL
    RETURNING id, renewed_at - previous_renewal_at AS elapsed, is_draining
)
