-- What this lease owns, longest held first.
-- $1 lease, $2 how many, NULL: all
SELECT id, claim_id, claim_number, lease, task, queue, state, attempt, failures, crashes, policy, cancel_requested
FROM holdfast.active
WHERE lease = $1
ORDER BY claim_number
LIMIT $2::bigint
