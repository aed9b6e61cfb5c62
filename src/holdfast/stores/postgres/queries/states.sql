-- Return the state of each of these jobs now.
-- :ids of jobs.
SELECT id, state, state = 'available' AND available_at > (SELECT clock_timestamp()) AS is_early
FROM holdfast.jobs
WHERE id = ANY(:ids::uuid[])
