-- No beat, claim or start of it lands again. Answers why it ended, this time or before, and whether its worker was asked to; nothing
-- if it lives on.
-- With $4 it is passed by while another session has it locked, and lives on: it is seen again.
-- One without a row gets one, so that a late copy of its opening is refused. With $4, the state in which it was seen, only if
-- nothing was heard of it since and it is still past its expiry.
-- $1 id, $2 why, $3 what nobody's process and timing look like, $4 seen
-- Lock order: the lease, so that claims that are under way are waited for and their jobs found; no job is touched.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
free AS MATERIALIZED (
    SELECT id FROM holdfast.leases WHERE id = $1 FOR UPDATE SKIP LOCKED
),
held AS MATERIALIZED (
    SELECT id FROM holdfast.leases WHERE id = $1 AND $4::text IS NOT NULL AND NOT EXISTS (SELECT FROM free)
),
known AS MATERIALIZED (
    SELECT ended_at IS NOT NULL AS is_ended, end_reason, is_draining FROM holdfast.leases
    WHERE id = $1 AND NOT EXISTS (SELECT FROM held)
    FOR UPDATE
),
ended AS (
    INSERT INTO holdfast.leases AS lease (
        id, worker, process, timing, ttl, grace, queues, tasks, slots, is_isolated, opened_at, renewed_at, expires_at,
        ended_at, end_reason
    )
    SELECT $1, '', $3::text, $3::text, 0, 0, '[]', '[]', 0, false, now, now, now, now, $2::text
    FROM clock LEFT JOIN known ON true
    WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at, end_reason = excluded.end_reason
    WHERE lease.ended_at IS NULL
        AND (
            $4::text IS NULL
            OR $4 = lease.renewals || ':' || extract(epoch FROM lease.expires_at) AND lease.expires_at < excluded.ended_at
        )
    RETURNING end_reason, is_draining
)
SELECT end_reason, is_draining FROM ended
UNION ALL
SELECT end_reason, is_draining FROM known WHERE is_ended
