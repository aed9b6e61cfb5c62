-- Return the ids of those of these jobs that match.
-- :ids of jobs; :state as it is written, :is_early, :is_blocked, :place, :task, :queue, :tag as JSON, :reason, :key, :older_than in microseconds,
-- :attempts_at_least, :created_after, :created_before, :available_after, :available_before,
-- :finished_after, :finished_before, :error_key: each may be NULL; :only_workflows.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT id FROM holdfast.jobs
WHERE id = ANY(:ids::uuid[])
    AND -- include matching()
