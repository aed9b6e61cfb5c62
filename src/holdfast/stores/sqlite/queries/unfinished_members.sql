-- Return the positions, among these jobs, of those that belong to workflows and have not ended.
SELECT place.value
FROM json_each(:places) AS place
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = substr(:items, 72 * place.value + 1, 16)
WHERE jobs.flow IS NOT NULL AND jobs.state NOT IN ('completed', 'failed', 'cancelled');
