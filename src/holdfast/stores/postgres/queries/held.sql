-- What this lease owns, longest held first.
-- $1 lease, $2 how many, NULL: all
SELECT id, claim, number, lease, task, queue, state, attempt, failures, crashes, policy, is_marked
FROM holdfast.active
WHERE lease = $1
ORDER BY number
LIMIT $2::bigint
