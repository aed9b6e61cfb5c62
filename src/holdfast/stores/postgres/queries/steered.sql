-- Return what an operator's verb changes of each of these jobs.
-- :ids of jobs.
SELECT id, state, available_at, cancel_requested FROM holdfast.jobs
WHERE id = ANY(:ids::uuid[])
