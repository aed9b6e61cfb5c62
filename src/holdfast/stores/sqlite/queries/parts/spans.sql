-- spans(asked): the first :most due jobs of each of the ranges asked for, as far as there are that many.
known AS MATERIALIZED (
    SELECT
        key AS task, value AS policy,
        coalesce(json_extract(value, '$.timeout'), json_extract(value, '$.progress_within')) IS NOT NULL AS is_limited
    FROM json_each(NEW.tasks)
),
ranges AS MATERIALIZED (
    SELECT
        json_extract(value, '$[0]') AS task, json_extract(value, '$[1]') AS priority, json_extract(value, '$[2]') AS queue,
        json_extract(value, '$[3]') AS key, json_extract(value, '$[4]') AS number
    FROM json_each(asked)
),
-- MATERIALIZED, else SQLite looks the ends up again for each job of the span. last: the :most-th job, NULL if fewer are due.
ends AS MATERIALIZED (
    SELECT ranges.*, known.policy, known.is_limited, (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.priority = ranges.priority
            AND job.queue = ranges.queue AND job.key = ranges.key AND job.available_at <= NEW.wall
            AND -- include claimable(job, NEW.normal, NEW.isolated, NEW.wall)
        ORDER BY job.available_at, job.id LIMIT 1 OFFSET NEW.most - 1
    ) AS last
    FROM ranges
    JOIN known ON known.task = ranges.task
    WHERE ranges.queue NOT IN (-- include paused())
),
spans AS MATERIALIZED (
    SELECT
        ends.*,
        coalesce((SELECT job.available_at FROM holdfast_jobs AS job WHERE job.rowid = ends.last), NEW.wall) AS last_at,
        coalesce(
            (SELECT job.id FROM holdfast_jobs AS job WHERE job.rowid = ends.last), x'ffffffffffffffffffffffffffffffff'
        ) AS last_id
    FROM ends
)
