-- Return the jobs that are not active under their token.
SELECT substr(:items, 72 * place.value + 1, 16) FROM json_each(:places) AS place
WHERE NOT EXISTS (
    SELECT 1 FROM holdfast_jobs AS jobs
    WHERE jobs.id = substr(:items, 72 * place.value + 1, 16)
        AND jobs.claim_id = substr(:items, 72 * place.value + 17, 16)
        AND jobs.claim_number = substr(:items, 72 * place.value + 33, 19) + 0
        AND jobs.state IN ('claimed', 'running')
);
