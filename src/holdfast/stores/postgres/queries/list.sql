-- Return the matching jobs, newest first: ids sort by creation.
-- :before, :down_to may be NULL.
-- :places, :stored as states are written, :states, :tasks, :queues, :reasons, :workers, :workflow, :is_rescued, :up_to, :text, :tags and
-- :schedule_tag as JSON, :key, :older_than in microseconds, :attempts_at_least, :created_after, :created_before, :available_after,
-- :available_before, :finished_after, :finished_before, :error_key: each may be NULL; :only_workflows; :limit, :skip.
-- It finds the ids first and reads the rows then, so that no unneeded column is carried along. It is planned for its values, because
-- each of them excludes most rows.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
found AS MATERIALIZED (
    SELECT id FROM holdfast.jobs
    WHERE (:before::uuid IS NULL OR id < :before)
        AND (:down_to::uuid IS NULL OR id >= :down_to)
        AND -- include matching()
    ORDER BY id DESC
    LIMIT :limit OFFSET :skip
)
SELECT jobs.*, -- include early_as((SELECT now FROM clock))
    AS early_as
FROM found
CROSS JOIN LATERAL ( -- one look into the indexes for each job: beside many waiting jobs, a join is planned as a scan of all jobs
    SELECT * FROM holdfast.jobs
    WHERE jobs.id = found.id AND (:places::text[] IS NULL OR jobs.place = ANY(:places)) -- so that other tables are not even planned
    LIMIT 1
) AS jobs
ORDER BY jobs.id DESC
