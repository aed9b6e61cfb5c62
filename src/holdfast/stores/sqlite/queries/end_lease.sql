-- End a lease: no beat, claim or start of it lands again. A missing lease gets a row, so that a late copy of its opening is refused.
-- With :seen, only if the lease was not renewed since and is still past its expiry.
INSERT INTO holdfast_leases (
    id, worker, process, timing, ttl, queues, tasks, grace, slots, is_isolated, boot, clock, opened_at, renewed_at, expires_at,
    ended_at, end_reason
) VALUES (
    :lease, :worker, :process, :timing, :ttl, :queues, :tasks, :grace, :slots, :is_isolated, :boot, :clock, :wall, :monotonic,
    :monotonic, :wall, :end_reason
)
ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at, end_reason = excluded.end_reason
WHERE ended_at IS NULL
    AND (
        :seen IS NULL
        OR (
            :seen = renewals || ':' || expires_at
            AND iif(boot = :boot AND clock = :clock AND boot <> '', expires_at < :monotonic, :is_overdue)
        )
    );
