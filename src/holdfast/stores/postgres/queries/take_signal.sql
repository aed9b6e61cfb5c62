-- Consume the oldest signal of this name of a job that is active under this token, as the result of a step that has no record yet.
-- Return whether the job is, whether the step has a result, and the result.
-- :job, :claim, :number; :signal; :name, :nth, :place, :is_sequential of the step.
-- Lock order: the job, its signals.
WITH mine AS MATERIALIZED (
    SELECT id FROM holdfast.active WHERE id = :job AND claim_id = :claim AND claim_number = :number FOR KEY SHARE
),

known AS MATERIALIZED (
    SELECT result FROM holdfast.steps WHERE job = :job AND name = :name AND nth = :nth
),

taken AS (
    DELETE FROM holdfast.signals
    WHERE place = (
        SELECT signals.place FROM holdfast.signals AS signals
        WHERE signals.job = (SELECT id FROM mine) AND signals.name = :signal AND NOT EXISTS (SELECT FROM known)
        ORDER BY signals.place
        LIMIT 1
    )
    RETURNING value
),

recorded AS (
    INSERT INTO holdfast.steps (job, name, nth, place, is_sequential, result)
    SELECT :job, :name, :nth, :place, :is_sequential, value FROM taken
)

SELECT EXISTS (SELECT FROM mine) AS is_mine, coalesce((SELECT value FROM taken), (SELECT result FROM known)) AS result;
