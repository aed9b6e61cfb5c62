-- owner(): the lease that claims, if it may, and the last claim number given out.
owner AS (
    SELECT worker, (SELECT claim_number FROM holdfast_sequence) AS last_number
    FROM holdfast_leases
    WHERE id = NEW.lease AND ended_at IS NULL
        -- A lease on another clock is judged by the supervisors that watch it, and by its owner itself.
        AND (NEW.monotonic <= expires_at OR boot <> NEW.boot OR clock <> NEW.clock OR boot = '')
        -- A second copy of an isolated worker's only claim must not add another job.
        AND NOT (is_isolated AND EXISTS (
            SELECT 1 FROM holdfast_jobs AS held WHERE held.lease = NEW.lease AND held.state IN ('claimed', 'running')
        ))
)
