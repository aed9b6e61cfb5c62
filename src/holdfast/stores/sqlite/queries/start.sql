-- Move claimed jobs to running under their tokens, unless the lease has ended; a job that runs already stays as it is.
UPDATE holdfast_jobs AS jobs SET state = 'running', attempt = attempt + 1, started_at = :wall, started_mono = :monotonic,
    last_moved_at = NULL
FROM json_each(:places) AS place
WHERE jobs.id = substr(:items, 72 * place.value + 1, 16)
    AND jobs.claim_id = substr(:items, 72 * place.value + 17, 16)
    AND jobs.claim_number = substr(:items, 72 * place.value + 33, 19) + 0
    AND jobs.state = 'claimed'
    AND EXISTS (SELECT 1 FROM holdfast_leases AS leases WHERE leases.id = jobs.lease AND leases.ended_at IS NULL);
