-- Delete jobs that no worker owns, with all their records; return the others with their state; NULL: it moved since, ask again.
-- :ids of jobs; :only_waiting, true: held and finished ones are left too, with their state in left_as.
-- Members of workflows are left as they are, and returned with their workflow.
-- Nothing that may be large is joined, because plans are made once, often while all tables are empty.
WITH waiting AS (
    DELETE FROM holdfast.pending
    WHERE id = ANY(:ids::uuid[]) AND (state = 'available' OR NOT :only_waiting::boolean) AND flow IS NULL
    RETURNING id, task, unique_key
),

over AS (
    DELETE FROM holdfast.finished WHERE id = ANY(:ids::uuid[]) AND NOT :only_waiting::boolean AND flow IS NULL RETURNING id, unique_key
),

gone AS MATERIALIZED (
    SELECT id FROM waiting
    UNION ALL
    SELECT id FROM over
),

attempts AS (
    DELETE FROM holdfast.attempts WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

payloads AS (
    DELETE FROM holdfast.payloads WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

steps AS (
    DELETE FROM holdfast.steps WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

signals AS (
    DELETE FROM holdfast.signals WHERE job = ANY(ARRAY(SELECT id FROM gone))
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(
        SELECT id FROM waiting WHERE unique_key IS NOT NULL
        UNION ALL
        SELECT id FROM over WHERE unique_key IS NOT NULL
    ))
)

SELECT seen.id, seen.state, seen.left_as, seen.flow
FROM (
    SELECT id, NULL AS state, nullif(state, 'available') AS left_as, flow FROM holdfast.pending WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, now, now, NULL
    FROM holdfast.active CROSS JOIN LATERAL (
        SELECT -- include state_of(active)
        AS now
    ) AS seen
    WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, NULL, state, flow FROM holdfast.finished WHERE id = ANY(:ids::uuid[])
) AS seen
WHERE seen.id NOT IN (SELECT gone.id FROM gone);
