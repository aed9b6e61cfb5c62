-- Matching jobs, newest first: ids sort by creation.
-- $1 before, $2 state as it is written, $3 is_early, $4 place, $5 task, $6 queue, $7 tag as JSON: each may be NULL; $8 how many
-- Found first and read then, so that nothing is carried along that is not asked for. Planned for the values asked, because
-- each of them rules out most of what there is. The text of a tag is looked for before anything is read as JSON, so that a
-- row that is none fails nobody.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
found AS MATERIALIZED (
    SELECT id FROM holdfast.jobs
    WHERE ($1::uuid IS NULL OR id < $1)
        AND ($2::text IS NULL OR state = $2)
        AND ($3::boolean IS NULL OR (available_at > (SELECT now FROM clock)) = $3)
        AND ($4::text IS NULL OR place = $4)
        AND ($5::text IS NULL OR task = $5)
        AND ($6::text IS NULL OR queue = $6)
        AND (
            $7::text IS NULL
            OR CASE WHEN position($7 IN tags) > 0 THEN $7 IN (SELECT tag::text FROM json_array_elements(tags::json) AS tag) END
        )
    ORDER BY id DESC
    LIMIT $8
)
SELECT jobs.*, jobs.state = 'available' AND jobs.available_at > (SELECT now FROM clock) AS is_early
FROM found JOIN holdfast.jobs ON jobs.id = found.id
ORDER BY id DESC
