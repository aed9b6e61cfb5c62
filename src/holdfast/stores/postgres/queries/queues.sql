-- Count jobs by queue and state, and return paused queues and those with settings, in one snapshot. A row without a state is a queue
-- without jobs.
-- :limit, how many finished jobs of a state it counts; NULL: all.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
counted AS MATERIALIZED (
    -- include counted(queue)
)
SELECT coalesce(counted.name, queues.queue) AS name, paused_at, priority, weight, key_weights, origin, state, early_as, number
FROM counted FULL JOIN holdfast.queues AS queues ON queues.queue = counted.name
ORDER BY coalesce(counted.name, queues.queue) COLLATE "C"
