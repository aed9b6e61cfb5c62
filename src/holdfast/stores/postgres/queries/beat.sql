-- Renew the leases that have not ended, even expired ones: no supervisor has ended them. Return a row for each lease and for each of its
-- jobs with a requested cancellation, with the microseconds since the previous beat.
-- :leases; :is_draining, whether their workers take no more jobs.
-- A lease that another session has locked does not delay the others: it is returned without microseconds, and asked for again.
-- The write touches no indexed column, so that the rows stay where they are. It touches no key, so that claims, which lock their lease
-- against its end, do not block it. The clock is read before any wait for a lock: never later than the owner assumes.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
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
    RETURNING id, renewed_at - previous_renewal_at AS elapsed
)
(
    SELECT renewed.id, (extract(epoch FROM renewed.elapsed) * 1000000)::bigint AS elapsed, active.id AS job
    FROM renewed LEFT JOIN holdfast.active ON active.lease = renewed.id AND active.cancel_requested
    ORDER BY active.claim_number
)
UNION ALL
SELECT leases.id, NULL, NULL FROM holdfast.leases
WHERE leases.id = ANY (:leases::uuid[]) AND leases.ended_at IS NULL AND leases.id <> ALL (ARRAY(SELECT renewed.id FROM renewed))
