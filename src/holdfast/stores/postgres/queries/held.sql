-- Return the jobs of this lease, oldest claim first.
-- :lease; :limit, NULL: all.
SELECT id, claim_id, claim_number, lease, task, queue, state, attempt, failures, crashes, policy, cancel_requested
FROM holdfast.active
WHERE lease = :lease
ORDER BY claim_number
LIMIT :limit::bigint
