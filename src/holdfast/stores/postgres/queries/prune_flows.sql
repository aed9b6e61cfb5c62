-- Delete finished members of workflows whose retention is over, and the roots of those that have no other members left. Return how many jobs, and
-- how many roots were reduced to stubs, because their retention is shorter than the floor.
-- :flows, locked; :limit of members; :floor in microseconds.
WITH clock AS MATERIALIZED (
    SELECT now, now - :floor::bigint * interval '1 microsecond' AS floor FROM clock_timestamp() AS now
),

roots AS MATERIALIZED (
    SELECT id, finished_at <= (SELECT floor FROM clock) AS is_over FROM holdfast.finished_other
    WHERE id = ANY(:flows::uuid[]) AND flow = id AND delete_after <= (SELECT now FROM clock)
        AND NOT (finished_at <= (SELECT floor FROM clock) AND -- include awaited(finished_other.id)
        )
),

chosen AS MATERIALIZED (
    SELECT members.job, members.flow FROM holdfast.members AS members
    WHERE members.flow = ANY(ARRAY(SELECT id FROM roots WHERE is_over)) AND members.job <> members.flow
        -- One may run again although its root has ended.
        AND NOT EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = members.job OFFSET 0)
        AND NOT EXISTS (SELECT FROM holdfast.active AS job WHERE job.id = members.job OFFSET 0)
        -- One whose rescue hook is due is kept for HOOK_RETENTION.
        AND NOT EXISTS (
            SELECT FROM holdfast.finished_other AS job
            WHERE job.id = members.job AND job.hook_due_at IS NOT NULL
                AND job.finished_at > (SELECT now FROM clock) - 604800 * interval '1 second' OFFSET 0
        )
    LIMIT :limit
),

those AS MATERIALIZED (
    SELECT job FROM chosen
    UNION ALL
    SELECT roots.id FROM roots
    WHERE roots.is_over AND (SELECT count(*) FROM chosen WHERE chosen.flow = roots.id) = (
        SELECT count(*) FROM holdfast.members AS members WHERE members.flow = roots.id AND members.job <> roots.id
    )
),

-- include forgotten_members(those),

stubs AS (
    UPDATE holdfast.finished_other SET
        payload = 'null', result = NULL, error = NULL, checkpoint = NULL, message = NULL, points = NULL, is_stub = true,
        delete_after = finished_at + :floor::bigint * interval '1 microsecond'
    WHERE id = ANY(ARRAY(SELECT id FROM roots WHERE NOT is_over))
    RETURNING id
),

forgotten_stub_payloads AS (
    DELETE FROM holdfast.payloads WHERE job = ANY(ARRAY(SELECT id FROM roots WHERE NOT is_over))
)

SELECT (SELECT count(*) FROM forgotten_finished) AS jobs, (SELECT count(*) FROM stubs) AS stubs;
