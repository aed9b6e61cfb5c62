-- Return the small results of these jobs, by their positions. Only members that completed by their code have one.
SELECT place.value, jobs.result
FROM json_each(:places) AS place
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = substr(:items, 72 * place.value + 1, 16)
WHERE length(jobs.result) <= 1024;
