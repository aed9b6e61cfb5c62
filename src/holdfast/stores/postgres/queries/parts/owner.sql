-- owner(): lock the lease, if it may claim: it must not end before this claim is visible. `clock` has the time.
-- While another session has the lease locked, nothing is claimed; settling goes on.
owner AS MATERIALIZED (
    SELECT lease.worker
    FROM holdfast.leases AS lease
    WHERE lease.id = :lease AND lease.ended_at IS NULL AND lease.expires_at >= (SELECT now FROM clock)
        AND (NOT lease.is_isolated OR :is_lone) AND (:voids::bigint IS NULL OR lease.voids = :voids)
    FOR KEY SHARE SKIP LOCKED
)
