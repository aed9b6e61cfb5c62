-- Return the own jobs of matching workflows, newest first: ids sort by creation.
-- :before, :down_to may be NULL.
-- :places, :stored as states are written, :states, :tasks, :queues, :reasons, :workers, :workflow, :is_rescued, :up_to, :text, :tags and
-- :schedule_tag as JSON, :key, :older_than in microseconds, :attempts_at_least, :created_after, :created_before, :available_after,
-- :available_before, :finished_after, :finished_before, :error_key: each may be NULL; :only_workflows is false; :limit, :skip.
-- It walks the workflows and looks up the job of each: list.sql would read all jobs to find the few that are roots.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
found AS MATERIALIZED (
    SELECT flows.id
    FROM holdfast.flows AS flows
    CROSS JOIN LATERAL ( -- not of jobs that only wait for each other
        SELECT FROM holdfast.members AS known WHERE known.flow = flows.id AND (known.is_gate OR known.job <> known.flow) LIMIT 1
    ) AS parts
    CROSS JOIN LATERAL (
        SELECT FROM holdfast.jobs WHERE id = flows.id
            AND -- include matching()
        LIMIT 1
    ) AS root
    WHERE (:before::uuid IS NULL OR flows.id < :before)
        AND (:down_to::uuid IS NULL OR flows.id >= :down_to)
    ORDER BY flows.id DESC
    LIMIT :limit OFFSET :skip
)
SELECT jobs.*, -- include early_as((SELECT now FROM clock))
    AS early_as
FROM found
CROSS JOIN LATERAL (SELECT * FROM holdfast.jobs WHERE jobs.id = found.id LIMIT 1) AS jobs
ORDER BY jobs.id DESC
