-- Of days that have passed: the jobs whose payload is kept elsewhere, with it, before their partition is dropped; or, for one
-- who may not drop it, everything.
-- $1 the first day that has not passed, $2 how many of each, $3 whether everything
WITH long AS MATERIALIZED (
    SELECT id, day FROM holdfast.finished
    WHERE day > '-infinity' AND day < $1 AND payload IS NULL
    ORDER BY id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
others AS MATERIALIZED (
    SELECT id, day FROM holdfast.finished
    WHERE $3 AND day > '-infinity' AND day < $1 AND payload IS NOT NULL
    LIMIT $2 - (SELECT count(*) FROM long)
    FOR UPDATE SKIP LOCKED
),
doomed AS MATERIALIZED (SELECT * FROM long UNION ALL SELECT * FROM others),
worn AS MATERIALIZED (
    SELECT job, number, day FROM holdfast.attempts
    WHERE $3 AND day > '-infinity' AND day < $1
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
jobs AS (
    DELETE FROM holdfast.finished USING doomed WHERE finished.id = doomed.id AND finished.day = doomed.day RETURNING true
),
bodies AS (
    DELETE FROM holdfast.bodies WHERE job = ANY (ARRAY(SELECT id FROM long))
),
attempts AS (
    DELETE FROM holdfast.attempts USING worn
    WHERE attempts.job = worn.job AND attempts.number = worn.number AND attempts.day = worn.day
    RETURNING true
)
SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM attempts) AS attempts
