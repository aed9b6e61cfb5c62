-- Return schedules by name, :is_due only those whose tick is due, longest due first; with the microseconds until the next other tick.
-- :is_due, :limit.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    found.*, now,
    (
        SELECT (extract(epoch FROM min(next_at) - now) * 1000000)::bigint
        FROM holdfast.schedules WHERE paused_at IS NULL AND next_at > now
    ) AS wait
FROM clock LEFT JOIN LATERAL (
    SELECT name, plan, next_at, last_tick, last_job, paused_at, version FROM holdfast.schedules
    WHERE NOT :is_due::boolean OR (paused_at IS NULL AND next_at <= now)
    ORDER BY CASE WHEN :is_due::boolean THEN next_at END, name
    LIMIT :limit::bigint
) AS found ON true;
