-- Count jobs by group and state.
-- :by queue, task, or NULL.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    CASE :by::text WHEN 'queue' THEN queue WHEN 'task' THEN task ELSE '' END AS name,
    state,
    -- include early_as((SELECT now FROM clock))
    AS early_as,
    count(*) AS number
FROM holdfast.jobs
GROUP BY 1, 2, 3
