-- Return the jobs of this lease, oldest claim first.
SELECT id, claim_id, claim_number, lease, task, state, attempt, failures, crashes, policy, cancel_requested, queue, flow,
    iif(points IS NULL, NULL, fraction)
FROM holdfast_jobs
WHERE lease = :lease AND state IN ('claimed', 'running')
ORDER BY claim_number
LIMIT :limit;
