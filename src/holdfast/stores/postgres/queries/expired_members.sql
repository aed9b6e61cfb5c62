-- Lock those of these members that have expired before their first start, and return them. One that another session has locked is left.
-- :ids of members of a locked workflow.
SELECT job.id, known.on_failure, known.is_gate
FROM holdfast.pending AS job CROSS JOIN LATERAL (
    SELECT members.on_failure, members.is_gate FROM holdfast.members AS members WHERE members.job = job.id OFFSET 0
) AS known
WHERE job.id = ANY(:ids::uuid[]) AND job.claimable_until > '-infinity' AND job.state = 'available'
    AND job.claimable_until <= (SELECT clock_timestamp())
FOR UPDATE OF job SKIP LOCKED;
