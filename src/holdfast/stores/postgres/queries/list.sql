-- Matching jobs, newest first: ids sort by creation.
-- :before, :state as it is written, :is_early, :place, :task, :queue, :tag as JSON: each may be NULL; :limit.
-- Found first and read then, so that nothing is carried along that is not asked for. Planned for the values asked, because
-- each of them rules out most of what there is. The text of a tag is looked for before anything is read as JSON, so that a
-- row that is none fails nobody.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
found AS MATERIALIZED (
    SELECT id FROM holdfast.jobs
    WHERE (:before::uuid IS NULL OR id < :before)
        AND (:state::text IS NULL OR state = :state)
        AND (:is_early::boolean IS NULL OR (available_at > (SELECT now FROM clock)) = :is_early)
        AND (:place::text IS NULL OR place = :place)
        AND (:task::text IS NULL OR task = :task)
        AND (:queue::text IS NULL OR queue = :queue)
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
