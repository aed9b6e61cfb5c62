-- Put back the row of an unfinished workflow, and what its jobs are in it, where they were lost, as far as its jobs show them; return the jobs of
-- those rows. What a blocked one waited for, and what it would have done, is not known any more: it requires more than its parents, so it fails.
-- A root that only waits for jobs of other workflows requires all of them; one that does not wait, or so, is not a gate.
-- :flow.
WITH root AS MATERIALIZED (
    SELECT id FROM holdfast.pending WHERE id = :flow
    UNION ALL
    SELECT id FROM holdfast.active WHERE id = :flow
),

row_of_flow AS (
    INSERT INTO holdfast.flows (id, paused_at)
    SELECT root.id, CASE
        WHEN EXISTS (
            SELECT FROM holdfast.members AS members JOIN holdfast.pending AS job ON job.id = members.job
            WHERE members.flow = :flow AND job.held_for = 'pause'
        ) THEN clock_timestamp()
    END
    FROM root
    ON CONFLICT DO NOTHING
    RETURNING id
),

known AS MATERIALIZED (
    SELECT id FROM root
    UNION
    SELECT edges.parent FROM holdfast.edges AS edges WHERE edges.child = :flow AND edges.parent_flow IS NULL
    UNION
    SELECT edges.parent
    FROM holdfast.members AS members
    CROSS JOIN LATERAL (
        SELECT edges.parent FROM holdfast.edges AS edges WHERE edges.child = members.job AND edges.parent_flow IS NULL OFFSET 0
    ) AS edges
    WHERE members.flow = :flow
),

job AS MATERIALIZED (
    SELECT known.id, job.task, job.is_unknown
    FROM known
    CROSS JOIN LATERAL (
        SELECT task, state = 'blocked' AND (
            SELECT bool_and(edges.parent_flow IS NOT NULL) FROM holdfast.edges AS edges WHERE edges.child = known.id
        ) IS NOT TRUE AS is_unknown
        FROM holdfast.pending WHERE id = known.id
        UNION ALL
        SELECT task, false FROM holdfast.active WHERE id = known.id
        UNION ALL
        SELECT task, false FROM holdfast.finished_other WHERE id = known.id
    ) AS job
),

rows_of_members AS (
    INSERT INTO holdfast.members (job, flow, position, node, required, on_failure, is_gate, needs, waits)
    SELECT
        job.id, :flow, 0, job.task, CASE
            WHEN job.is_unknown THEN (SELECT count(*) + 1 FROM holdfast.edges AS edges WHERE edges.child = job.id)
        END, 'fail', job.id = :flow AND job.is_unknown, 0, 0
    FROM job
    ON CONFLICT DO NOTHING
    RETURNING job
)

SELECT id AS job FROM row_of_flow
UNION ALL
SELECT job FROM rows_of_members;
