-- Count jobs by group and state.
SELECT
    CASE :by WHEN 'queue' THEN queue WHEN 'task' THEN task ELSE '' END AS name,
    -- include shown()
    AS now,
    count(*)
FROM holdfast_jobs
GROUP BY name, now;
