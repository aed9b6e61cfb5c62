-- precondition(jobs): whether what a transition asks of the job or its lease is so.
CASE
    WHEN settle.precondition IS NULL THEN 1
    WHEN settle.precondition = 'lease_ended' THEN
        NOT EXISTS (SELECT 1 FROM holdfast_leases WHERE id = jobs.lease AND ended_at IS NULL)
    WHEN settle.precondition = 'voided' THEN
        jobs.state = 'claimed' AND settle.voids > 0 AND EXISTS (
            SELECT 1 FROM holdfast_leases WHERE id = jobs.lease AND voids = settle.voids
        )
    ELSE EXISTS (
        SELECT 1 FROM holdfast_deadlines AS limits
        WHERE limits.job = settle.job AND limits.boot = NEW.boot AND limits.clock = NEW.clock
            AND iif(settle.rescued = 'stalled', limits.stalled_from, limits.timed_out_from) < NEW.monotonic
    )
END
