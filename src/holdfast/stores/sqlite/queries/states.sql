-- Return the state of each of these jobs now.
SELECT id, -- include shown()
FROM holdfast_jobs
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
