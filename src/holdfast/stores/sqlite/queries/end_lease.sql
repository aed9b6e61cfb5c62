-- No beat, claim or start of it lands again. One without a row gets one, so that a late copy of its opening is refused.
-- With :seen only if nothing was heard of it since and it is still past its expiry.
INSERT INTO holdfast_leases (
    id, worker, process, timing, ttl, queues, tasks, grace, slots, is_isolated, boot, clock, opened_at, beaten_at, expires_at,
    ended_at, why
) VALUES (
    :lease, :worker, :process, :timing, :ttl, :queues, :tasks, :grace, :slots, :is_isolated, :boot, :clock, :wall, :monotonic,
    :monotonic, :wall, :why
)
ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at, why = excluded.why
WHERE ended_at IS NULL
    AND (
        :seen IS NULL
        OR (
            :seen = beats || ':' || expires_at
            AND iif(boot = :boot AND clock = :clock AND boot <> '', expires_at < :monotonic, :is_overdue)
        )
    );
