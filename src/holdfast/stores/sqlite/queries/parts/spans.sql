-- spans(asked): the first due jobs of each of the ranges asked for: :most, or one less if that is their number.
--
-- An OFFSET cannot be a column. Lanes that share a claim give the same number of jobs or one less, or all they have.
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
-- MATERIALIZED, else SQLite looks the ends up again for each job of the span. last: NULL if fewer are due.
ends AS MATERIALIZED (
    SELECT
        ranges.*, known.policy, known.is_limited,
        CASE ranges.number
            WHEN NEW.most - 1 THEN (-- include last_due(NEW.most - 1))
            ELSE (-- include last_due(NEW.most))
        END AS last
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
