-- Record a step of a job that is active under this token; a record that exists stays as it is. Return the job if it is.
-- :job, :claim, :number; :name, :nth, :place, :is_sequential, :result of the step.
-- The row stays locked until the record is committed: a rescue of the job waits for it, or came first.
WITH mine AS MATERIALIZED (
    SELECT id FROM holdfast.active WHERE id = :job AND claim_id = :claim AND claim_number = :number FOR KEY SHARE
),

recorded AS (
    INSERT INTO holdfast.steps (job, name, nth, place, is_sequential, result)
    SELECT id, :name, :nth, :place, :is_sequential, :result FROM mine
    ON CONFLICT DO NOTHING
)

SELECT id FROM mine;
