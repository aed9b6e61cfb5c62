-- Count jobs by queue and state, and return the queues that are paused or have settings, in one snapshot.
-- A row without a state is such a queue.
SELECT queue, -- include shown()
    AS now, count(*), NULL, NULL, NULL, NULL, NULL
FROM holdfast_jobs
GROUP BY queue, now
UNION ALL
SELECT queue, NULL, 0, paused_at, priority, weight, key_weights, origin FROM holdfast_queues
ORDER BY 1, 2;
