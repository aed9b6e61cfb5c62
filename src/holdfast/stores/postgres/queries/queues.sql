-- Count jobs by queue and state, and return paused queues and those with settings, in one snapshot. A row without a state is a queue
-- without jobs.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
counted AS MATERIALIZED (
    SELECT queue, state, -- include early_as((SELECT now FROM clock))
        AS early_as, count(*) AS number
    FROM holdfast.jobs
    GROUP BY 1, 2, 3
)
SELECT queue AS name, paused_at, priority, weight, key_weights, origin, state, early_as, number
FROM counted FULL JOIN holdfast.queues AS queues USING (queue)
ORDER BY queue COLLATE "C"
