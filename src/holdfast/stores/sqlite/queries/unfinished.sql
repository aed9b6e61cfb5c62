-- Return the positions, among these jobs, of those that have not ended.
SELECT place.value
FROM json_each(:places) AS place
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = substr(:items, 72 * place.value + 1, 16)
WHERE jobs.state NOT IN ('completed', 'failed', 'cancelled');
