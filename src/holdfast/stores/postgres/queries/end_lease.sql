-- End a lease: no beat, claim or start of it lands again. Return why it ended, now or before, and whether its worker was asked to
-- drain; nothing if the lease lives on.
-- With :seen, a lease that another session has locked is skipped and lives on: it is seen again later.
-- A missing lease gets a row, so that a late copy of its opening is refused. With :seen, the state in which it was seen, the lease
-- ends only if it was not renewed since and is still past its expiry.
-- :lease; :end_reason; :unknown, the process and the timing of a lease without a row; :seen.
-- Lock order: the lease, so that this waits for claims under way and finds their jobs; no job is touched.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
free AS MATERIALIZED (
    SELECT id FROM holdfast.leases WHERE id = :lease FOR UPDATE SKIP LOCKED
),
held AS MATERIALIZED (
    SELECT id FROM holdfast.leases WHERE id = :lease AND :seen::text IS NOT NULL AND NOT EXISTS (SELECT FROM free)
),
known AS MATERIALIZED (
    SELECT ended_at IS NOT NULL AS is_ended, end_reason, is_draining FROM holdfast.leases
    WHERE id = :lease AND NOT EXISTS (SELECT FROM held)
    FOR UPDATE
),
ended AS (
    INSERT INTO holdfast.leases AS lease (
        id, worker, process, timing, ttl, grace, queues, tasks, slots, is_isolated, opened_at, renewed_at, expires_at,
        ended_at, end_reason
    )
    SELECT :lease, '', :unknown::text, :unknown::text, 0, 0, '[]', '[]', 0, false, now, now, now, now, :end_reason::text
    FROM clock LEFT JOIN known ON true
    WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at, end_reason = excluded.end_reason
    WHERE lease.ended_at IS NULL
        AND (
            :seen::text IS NULL
            OR :seen = lease.renewals || ':' || extract(epoch FROM lease.expires_at) AND lease.expires_at < excluded.ended_at
        )
    RETURNING end_reason, is_draining
)
SELECT end_reason, is_draining FROM ended
UNION ALL
SELECT end_reason, is_draining FROM known WHERE is_ended
