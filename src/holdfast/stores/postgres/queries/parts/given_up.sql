-- given_up(): the first position at which the walk of a task gave up.
-- What lies behind it is not dealt, because it is not known for all tasks.
given_up AS MATERIALIZED (
    SELECT priority, is_before, queue, key FROM walk
    WHERE missed >= :misses ORDER BY priority, is_before, queue, key LIMIT 1
)
