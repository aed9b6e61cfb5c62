-- Consume the oldest signal of this name of a job that is active under this token, as the result of a step that has no record yet.
--
-- A temporary trigger, because it writes two tables in one step: see exchange.sql.
CREATE TEMP VIEW holdfast_take_signal (job, claim_id, claim_number, name, step, nth, place, is_sequential) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_take_and_record INSTEAD OF INSERT ON holdfast_take_signal
BEGIN
    INSERT INTO holdfast_steps (job, name, nth, place, is_sequential, result)
    SELECT jobs.id, NEW.step, NEW.nth, NEW.place, NEW.is_sequential, signals.value
    FROM holdfast_jobs AS jobs CROSS JOIN holdfast_signals AS signals ON signals.job = jobs.id
    WHERE jobs.id = NEW.job AND jobs.claim_id = NEW.claim_id AND jobs.claim_number = NEW.claim_number
        AND jobs.state IN ('claimed', 'running') AND signals.name = NEW.name
    ORDER BY signals.place
    LIMIT 1
    ON CONFLICT DO NOTHING;

    DELETE FROM holdfast_signals WHERE changes() = 1 AND place = (
        SELECT min(first.place) FROM holdfast_signals AS first WHERE first.job = NEW.job AND first.name = NEW.name
    );
END;

-- call
INSERT INTO holdfast_take_signal (job, claim_id, claim_number, name, step, nth, place, is_sequential)
VALUES (:job, :claim_id, :claim_number, :signal, :step, :nth, :place, :is_sequential);
