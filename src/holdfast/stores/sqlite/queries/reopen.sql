-- Finished, held and scheduled jobs are due at once with fresh budgets; attempts and claim numbers go on.
--
-- A temporary trigger, because it writes two tables in one step: see exchange.sql.
CREATE TEMP VIEW reopen (items, places, wall) AS
SELECT NULL, NULL, NULL;

CREATE TEMP TRIGGER remember_and_reopen INSTEAD OF INSERT ON reopen
BEGIN
    -- The row is about to forget its token; a settle under it that comes again must still be recognised.
    INSERT INTO attempts (job, number, claim, sent_to, outcome, attempt, worker, started_at, ended_at, error)
    SELECT id, number, claim, state, state, attempt, coalesce(worker, ''), started_at, finished_at, error
    FROM jobs
    WHERE id IN (SELECT substr(NEW.items, 72 * value + 1, 16) FROM json_each(NEW.places))
        AND state IN ('completed', 'failed', 'cancelled') AND claim IS NOT NULL
    ON CONFLICT DO NOTHING;

    UPDATE jobs SET
        state = 'available', available_at = NEW.wall, claim = NULL, worker = NULL, failures = 0, crashes = 0,
        is_marked = 0, claimed_at = NULL, started_at = NULL, finished_at = NULL, reason = NULL, error = NULL, result = NULL
    WHERE id IN (SELECT substr(NEW.items, 72 * value + 1, 16) FROM json_each(NEW.places))
        AND (
            state IN ('completed', 'failed', 'cancelled', 'held')
            OR (state = 'available' AND available_at > NEW.wall)
        );
END;

-- call
INSERT INTO reopen (items, places, wall) VALUES (:items, :places, :wall);
