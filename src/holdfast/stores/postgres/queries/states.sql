-- Return the state of each of these jobs now.
-- :ids of jobs.
SELECT id, state, -- include early_as((SELECT clock_timestamp()))
    AS early_as
FROM holdfast.jobs
WHERE id = ANY(:ids::uuid[])
