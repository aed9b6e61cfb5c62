-- Return the ids of those of these jobs that match.
-- :ids of jobs.
-- :places, :stored as states are written, :states, :tasks, :queues, :reasons, :workers, :workflow, :is_rescued, :up_to, :text, :tags and
-- :schedule_tag as JSON, :key, :older_than in microseconds, :attempts_at_least, :created_after, :created_before, :available_after,
-- :available_before, :finished_after, :finished_before, :error_key: each may be NULL; :only_workflows.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT id FROM holdfast.jobs
WHERE id = ANY(:ids::uuid[])
    AND -- include matching()
