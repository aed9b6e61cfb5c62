-- Return all limits, each with the number of active jobs that it counts, and with the first claimed of them: id, worker, microseconds.
-- :most, how many of those.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
counted AS MATERIALIZED (
    SELECT task, queue, id, worker, claimed_at FROM holdfast.active WHERE is_counted
)
SELECT
    limits.scope, limits.name, limits.plan, limits.origin, (
        SELECT json_agg(json_build_array(holder.id, holder.worker, holder.held) ORDER BY holder.held DESC, holder.id)::text FROM (
            SELECT id, worker, (extract(epoch FROM (SELECT now FROM clock) - claimed_at) * 1000000)::bigint AS held FROM counted
            WHERE limits.name = CASE limits.scope WHEN 'all' THEN '' WHEN 'task' THEN counted.task ELSE counted.queue END
            ORDER BY claimed_at, id LIMIT :most
        ) AS holder
    ) AS holders
FROM holdfast.limits AS limits;
