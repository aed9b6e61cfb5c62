-- Return the matching jobs, newest first: ids sort by creation.
-- :before, :state as it is written, :is_early, :place, :task, :queue, :tag as JSON, :reason, :key, :older_than in microseconds,
-- :attempts_at_least: each may be NULL; :limit.
-- It finds the ids first and reads the rows then, so that no unneeded column is carried along. It is planned for its values, because
-- each of them excludes most rows. It searches for the text of a tag before it parses JSON, so that a row with invalid JSON does not
-- fail the query.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
found AS MATERIALIZED (
    SELECT id FROM holdfast.jobs
    WHERE (:before::uuid IS NULL OR id < :before)
        AND (:state::text IS NULL OR state = :state)
        AND (:is_early::boolean IS NULL OR (available_at > (SELECT now FROM clock)) = :is_early)
        AND (:place::text IS NULL OR place = :place)
        AND (:task::text IS NULL OR task = :task)
        AND (:queue::text IS NULL OR queue = :queue)
        AND (:reason::text IS NULL OR reason = :reason)
        AND (:key::text IS NULL OR key = :key)
        AND (:older_than::bigint IS NULL OR coalesce(finished_at, created_at) <= (SELECT now FROM clock) - :older_than * interval '1 us')
        AND (:attempts_at_least::integer IS NULL OR attempt >= :attempts_at_least)
        AND (
            :tag::text IS NULL
            OR CASE WHEN position(:tag IN tags) > 0 THEN :tag IN (SELECT tag::text FROM json_array_elements(tags::json) AS tag) END
        )
    ORDER BY id DESC
    LIMIT :limit
)
SELECT jobs.*, jobs.state = 'available' AND jobs.available_at > (SELECT now FROM clock) AS is_early
FROM found JOIN holdfast.jobs ON jobs.id = found.id
ORDER BY id DESC
