-- Count jobs by group and state; of finished jobs of a state no more than :limit.
SELECT name, now, sum(number) FROM (
    -- include counted(CASE :by WHEN 'queue' THEN queue WHEN 'task' THEN task ELSE '' END)
)
GROUP BY name, now;
