-- Return those of these finished jobs whose unique key another job holds, each with that job.
SELECT jobs.id, holding.id
FROM json_each(:places) AS place
JOIN holdfast_jobs AS jobs ON jobs.id = substr(:items, 72 * place.value + 1, 16)
JOIN holdfast_jobs AS holding
    ON holding.task = jobs.task AND holding.unique_key = jobs.unique_key AND holding.id <> jobs.id
    AND -- include holds_key(holding, :wall)
WHERE jobs.state IN ('completed', 'failed', 'cancelled') AND NOT jobs.is_stub;
