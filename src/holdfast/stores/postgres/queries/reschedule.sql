-- Give waiting jobs a new due time. Return each known job with its state; NULL: it moved since, ask again.
-- :ids of jobs; :delay in seconds; :run_at, NULL: after the delay.
WITH moved AS (
    UPDATE holdfast.pending
    SET available_at = coalesce(:run_at::timestamptz, (SELECT clock_timestamp()) + :delay::double precision * interval '1 second')
    WHERE id = ANY(:ids::uuid[]) AND state = 'available'
    RETURNING id, coalesce(
        -- include early_as((SELECT clock_timestamp()))
        , state
    ) AS state
)

SELECT seen.id, coalesce(seen.state, moved.state) AS state
FROM (
    SELECT id, nullif(state, 'available') AS state FROM holdfast.pending WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, -- include state_of(active)
    FROM holdfast.active WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, state FROM holdfast.finished WHERE id = ANY(:ids::uuid[])
) AS seen
LEFT JOIN moved ON moved.id = seen.id;
