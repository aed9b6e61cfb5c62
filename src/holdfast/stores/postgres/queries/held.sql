-- Return the jobs of this lease, oldest claim first.
-- :lease; :limit, NULL: all.
SELECT
    id, claim_id, claim_number, lease, task, queue, CASE WHEN has_begun THEN 'running' ELSE state END AS state,
    attempt + has_begun::integer AS attempt, failures, crashes, policy, cancel_requested, flow,
    CASE WHEN points IS NOT NULL THEN fraction END AS fraction
FROM holdfast.active AS job CROSS JOIN LATERAL (
    SELECT -- include has_begun(job)
    AS has_begun
) AS begun
WHERE lease = :lease
ORDER BY claim_number
LIMIT :limit::bigint
