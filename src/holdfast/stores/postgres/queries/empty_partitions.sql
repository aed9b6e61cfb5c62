-- Delete the jobs of past days whose payload is in the table payloads, with their payloads, steps and signals, before the
-- partitions are dropped.
-- For a user without the right to drop partitions, delete all jobs of these days.
-- :today, the first day that has not passed; :limit of each; :is_all, whether everything.
WITH long AS MATERIALIZED (
    SELECT id, delete_day FROM holdfast.finished
    WHERE delete_day > '-infinity' AND delete_day < :today AND payload IS NULL
    ORDER BY id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
others AS MATERIALIZED (
    SELECT id, delete_day FROM holdfast.finished
    WHERE :is_all AND delete_day > '-infinity' AND delete_day < :today AND payload IS NOT NULL
    LIMIT :limit - (SELECT count(*) FROM long)
    FOR UPDATE SKIP LOCKED
),
doomed AS MATERIALIZED (SELECT * FROM long UNION ALL SELECT * FROM others),
worn AS MATERIALIZED (
    SELECT job, claim_number, delete_day FROM holdfast.attempts
    WHERE :is_all AND delete_day > '-infinity' AND delete_day < :today
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
jobs AS (
    DELETE FROM holdfast.finished USING doomed WHERE finished.id = doomed.id AND finished.delete_day = doomed.delete_day RETURNING true
),
payloads AS (
    DELETE FROM holdfast.payloads WHERE job = ANY (ARRAY(SELECT id FROM long))
),
steps AS (
    DELETE FROM holdfast.steps WHERE job = ANY (ARRAY(SELECT id FROM doomed))
),
signals AS (
    DELETE FROM holdfast.signals WHERE job = ANY (ARRAY(SELECT id FROM doomed))
),
attempts AS (
    DELETE FROM holdfast.attempts USING worn
    WHERE attempts.job = worn.job AND attempts.claim_number = worn.claim_number AND attempts.delete_day = worn.delete_day
    RETURNING true
)
SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM attempts) AS attempts
