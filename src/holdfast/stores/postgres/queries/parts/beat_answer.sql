-- beat_answer(): the leases that were renewed, each with its cancelled jobs, and those that another session has locked.
(
    SELECT renewed.id, (extract(epoch FROM renewed.elapsed) * 1000000)::bigint AS elapsed, renewed.is_draining, active.id AS job
    FROM renewed LEFT JOIN holdfast.active ON active.lease = renewed.id AND active.cancel_requested
    ORDER BY active.claim_number
)
UNION ALL
SELECT leases.id, NULL, NULL, NULL FROM holdfast.leases
WHERE leases.id = ANY (:leases::uuid[]) AND leases.ended_at IS NULL AND leases.id <> ALL (ARRAY(SELECT renewed.id FROM renewed))
