-- Count jobs by group and state.
-- :by queue, task, or NULL.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    CASE :by::text WHEN 'queue' THEN queue WHEN 'task' THEN task ELSE '' END AS name,
    state,
    state = 'available' AND available_at > (SELECT now FROM clock) AS is_early,
    count(*) AS number
FROM holdfast.jobs
GROUP BY 1, 2, 3
