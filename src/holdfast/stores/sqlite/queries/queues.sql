-- Count jobs by queue and state, and return the queues that are paused or have settings, in one snapshot.
-- A row without a state is such a queue.
SELECT name, now, sum(number), NULL, NULL, NULL, NULL, NULL FROM (
    -- include counted(queue)
)
GROUP BY name, now
UNION ALL
SELECT queue, NULL, 0, paused_at, priority, weight, key_weights, origin FROM holdfast_queues
ORDER BY 1, 2;
