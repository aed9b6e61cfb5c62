-- What this lease owns, longest held first.
SELECT id, claim, number, lease, task, state, attempt, failures, crashes, policy, is_marked, queue
FROM holdfast_jobs
WHERE lease = :lease AND state IN ('claimed', 'running')
ORDER BY number
LIMIT :limit;
