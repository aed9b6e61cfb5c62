-- Return the tasks of which a job waits, by name: a loose index scan, from one task straight to the next.
WITH RECURSIVE tasks (name) AS (
    SELECT min(task) FROM holdfast_jobs WHERE state = 'available'
    UNION ALL
    SELECT (SELECT min(task) FROM holdfast_jobs WHERE state = 'available' AND task > name)
    FROM tasks WHERE name IS NOT NULL
)
SELECT name FROM tasks WHERE name IS NOT NULL;
