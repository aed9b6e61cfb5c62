-- Jobs that nobody owns are gone without a trace; the others with their state, NULL: it moved meanwhile, ask again.
WITH waiting AS (
    DELETE FROM holdfast.pending WHERE id = ANY($1::uuid[]) RETURNING id, task, unique_key
),

over AS (
    DELETE FROM holdfast.finished WHERE id = ANY($1::uuid[]) RETURNING id
),

gone AS MATERIALIZED (
    SELECT id FROM waiting
    UNION ALL
    SELECT id FROM over
),

attempts AS (
    DELETE FROM holdfast.attempts USING gone WHERE attempts.job = gone.id
),

bodies AS (
    DELETE FROM holdfast.bodies USING gone WHERE bodies.job = gone.id
),

freed AS (
    DELETE FROM holdfast.unique_keys AS keys
    USING waiting
    WHERE keys.task = waiting.task AND keys.key = waiting.unique_key AND keys.job = waiting.id
)

SELECT seen.id, seen.state
FROM (
    SELECT id, NULL AS state FROM holdfast.pending WHERE id = ANY($1::uuid[])
    UNION ALL
    SELECT id, state FROM holdfast.active WHERE id = ANY($1::uuid[])
    UNION ALL
    SELECT id, NULL FROM holdfast.finished WHERE id = ANY($1::uuid[])
) AS seen
WHERE seen.id NOT IN (SELECT gone.id FROM gone);
