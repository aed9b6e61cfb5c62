-- Return the ids of those of these jobs that match.
SELECT id FROM holdfast_jobs
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND -- include matching();
