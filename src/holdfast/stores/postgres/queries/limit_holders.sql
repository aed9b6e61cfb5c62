-- Return all limits, each with the active jobs that it counts and that were claimed first, and with those of them that have a key.
-- :most, how many of those; :key, NULL: none.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
counted AS MATERIALIZED (
    SELECT task, queue, key, id, worker, claimed_at FROM holdfast.active WHERE is_counted
)
SELECT
    limits.scope, limits.name, limits.plan, limits.origin,
    (-- include holders(true)
    ) AS holders,
    (-- include holders(counted.key = :key)
    ) AS holders_of_key
FROM holdfast.limits AS limits;
