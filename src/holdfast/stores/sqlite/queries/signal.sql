-- Keep a signal for an unfinished job, and make the job due if it awaits one of that name; a paused workflow may hold it until then.
-- A job that has :most signals gets no more; a call that has a receipt already changes nothing.
--
-- A temporary trigger, because it writes three tables in one step: see exchange.sql.
CREATE TEMP VIEW holdfast_signal (call, job, name, value, most, wall) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_signal_once INSTEAD OF INSERT ON holdfast_signal
WHEN NOT EXISTS (SELECT 1 FROM holdfast_receipts WHERE call = NEW.call)
BEGIN
    INSERT INTO holdfast_receipts (call, received_at)
    SELECT NEW.call, NEW.wall FROM holdfast_jobs
    WHERE id = NEW.job AND state NOT IN ('completed', 'failed', 'cancelled')
        AND (SELECT count(*) FROM holdfast_signals AS signals WHERE signals.job = NEW.job) < NEW.most;

    INSERT INTO holdfast_signals (job, name, value) SELECT NEW.job, NEW.name, NEW.value WHERE changes() = 1;

    UPDATE holdfast_jobs SET available_at = NEW.wall, awaits = NULL
    WHERE changes() = 1 AND id = NEW.job AND state IN ('available', 'held') AND awaits = NEW.name;
END;

-- call
INSERT INTO holdfast_signal (call, job, name, value, most, wall) VALUES (:call, :job, :signal, :value, :most, :wall);
