-- Return schedules by name, :is_due only those whose tick is due, longest due first; with the microseconds until the next other tick.
SELECT
    found.name, found.plan, found.next_at, found.last_tick, found.last_job, found.paused_at, found.version, :wall,
    (SELECT min(next_at) - :wall FROM holdfast_schedules WHERE paused_at IS NULL AND next_at > :wall)
FROM (SELECT 1) LEFT JOIN (
    SELECT * FROM holdfast_schedules
    WHERE NOT :is_due OR (paused_at IS NULL AND next_at <= :wall)
    ORDER BY iif(:is_due, next_at, 0), name
    LIMIT :limit
) AS found ON true;
