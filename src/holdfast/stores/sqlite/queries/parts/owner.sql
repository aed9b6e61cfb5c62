-- owner(claimer, known_voids, now, own_boot, own_clock, is_settled): the lease that claims, if it may, and the last claim number given out.
owner AS (
    SELECT worker, (SELECT claim_number FROM holdfast_sequence) AS last_number
    FROM holdfast_leases
    WHERE id = claimer AND ended_at IS NULL AND (known_voids IS NULL OR voids = known_voids)
        -- A lease on another clock is judged by the supervisors that watch it, and by its owner itself.
        AND (now <= expires_at OR boot <> own_boot OR clock <> own_clock OR boot = '')
        -- A second copy of an isolated worker's only claim must not add another job.
        AND NOT (is_isolated AND is_settled AND EXISTS (
            SELECT 1 FROM holdfast_jobs AS held WHERE held.lease = claimer AND held.state IN ('claimed', 'running')
        ))
)
