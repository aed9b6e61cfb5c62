-- Return the tasks of which a job waits, by name: a loose index scan, from one task straight to the next.
WITH RECURSIVE tasks (name) AS (
    (SELECT task FROM holdfast.pending WHERE state = 'available' ORDER BY task LIMIT 1)
    UNION ALL
    SELECT (SELECT task FROM holdfast.pending WHERE state = 'available' AND task > name ORDER BY task LIMIT 1)
    FROM tasks
    WHERE name IS NOT NULL
)
SELECT name FROM tasks WHERE name IS NOT NULL ORDER BY name COLLATE "C"
