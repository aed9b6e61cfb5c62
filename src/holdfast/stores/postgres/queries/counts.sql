-- Count jobs by group and state; of finished jobs of a state no more than a limit.
-- :by queue, task, or NULL; :limit may be NULL.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
-- include counted(CASE :by::text WHEN 'queue' THEN queue WHEN 'task' THEN task ELSE '' END)
