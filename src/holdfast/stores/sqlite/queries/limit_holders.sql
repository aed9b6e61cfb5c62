-- Return the active jobs, those claimed first first, with what limits count them by.
SELECT task, queue, key, id, worker, :wall - claimed_at FROM holdfast_jobs
WHERE state IN ('claimed', 'running')
ORDER BY claimed_at, id;
