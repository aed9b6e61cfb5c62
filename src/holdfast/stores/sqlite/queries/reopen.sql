-- Make finished, held and scheduled jobs due at once with fresh budgets; attempts and claim numbers continue.
--
-- With :is_fresh they lose their checkpoint and their steps.
-- A temporary trigger, because it writes several tables in one step: see exchange.sql.
CREATE TEMP VIEW holdfast_reopen (items, places, is_fresh, wall) AS
SELECT NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_remember_and_reopen INSTEAD OF INSERT ON holdfast_reopen
BEGIN
    -- Of several finished jobs with one key, the first one takes the key again, unless another job holds it. A job whose key a claim has
    -- freed does not ask for it.
    DELETE FROM holdfast_touched;
    INSERT INTO holdfast_touched (what, id)
    SELECT 'job', id
    FROM (
        SELECT
            jobs.id, jobs.unique_key, jobs.task, jobs.state,
            jobs.claim_number > 0 AND json_extract(jobs.extra, '$.unique.until_started') IS NOT NULL AS asks_nothing,
            row_number() OVER (
                PARTITION BY
                    jobs.task, jobs.unique_key, jobs.finished_at IS NULL,
                    jobs.claim_number > 0 AND json_extract(jobs.extra, '$.unique.until_started') IS NOT NULL
                ORDER BY place.value
            ) AS turn
        FROM json_each(NEW.places) AS place
        JOIN holdfast_jobs AS jobs ON jobs.id = substr(NEW.items, 72 * place.value + 1, 16)
        WHERE (jobs.state IN ('completed', 'failed', 'cancelled') AND NOT jobs.is_stub)
            OR jobs.state = 'held' OR (jobs.state = 'available' AND jobs.available_at > NEW.wall)
    ) AS chosen
    WHERE unique_key IS NULL OR asks_nothing OR state IN ('held', 'available') OR (
        turn = 1 AND NOT EXISTS (
            SELECT 1 FROM holdfast_jobs AS holding
            WHERE holding.task = chosen.task AND holding.unique_key = chosen.unique_key AND holding.id <> chosen.id
                AND -- include holds_key(holding, NEW.wall)
        )
    );

    -- A job whose time is over loses its key to one that takes it again.
    UPDATE holdfast_jobs SET extra = json_set(extra, '$.unique.is_freed', json('true'))
    WHERE id IN (
        SELECT keeping.id
        FROM holdfast_touched AS touched
        JOIN holdfast_jobs AS jobs ON jobs.id = touched.id AND jobs.state IN ('completed', 'failed', 'cancelled')
        JOIN holdfast_jobs AS keeping
            ON keeping.task = jobs.task AND keeping.unique_key = jobs.unique_key AND keeping.id <> jobs.id
            AND -- include keeps_key(keeping)
        WHERE jobs.claim_number = 0 OR json_extract(jobs.extra, '$.unique.until_started') IS NULL
    );

    -- Record the token, which the row is about to lose: a repeated settle under it must still be recognised.
    INSERT INTO holdfast_attempts (job, claim_number, claim_id, requested_state, outcome, attempt, worker, started_at, ended_at, error, points)
    SELECT id, claim_number, claim_id, state, state, attempt, coalesce(worker, ''), started_at, finished_at, error, points
    FROM holdfast_jobs
    WHERE id IN (SELECT id FROM holdfast_touched)
        AND state IN ('completed', 'failed', 'cancelled') AND claim_id IS NOT NULL
    ON CONFLICT DO NOTHING;

    UPDATE holdfast_jobs SET
        extra = CASE
            WHEN unique_key IS NULL OR finished_at IS NULL OR extra IS NULL THEN extra
            WHEN claim_number > 0 AND json_extract(extra, '$.unique.until_started') IS NOT NULL
                THEN json_set(extra, '$.unique.is_freed', json('true'))
            ELSE json_remove(extra, '$.unique.is_freed')
        END,
        state = 'available', available_at = NEW.wall, claim_id = NULL, worker = NULL, failures = 0, crashes = 0,
        claimable_until = NULL,
        cancel_requested = 0, claimed_at = NULL, started_at = NULL, finished_at = NULL, delete_after = NULL, expires_at = NULL,
        reason = NULL, error = NULL, result = NULL, awaits = NULL, points = NULL, checkpoint = iif(NEW.is_fresh, NULL, checkpoint)
    WHERE id IN (SELECT id FROM holdfast_touched);

    DELETE FROM holdfast_steps WHERE NEW.is_fresh AND job IN (SELECT id FROM holdfast_touched);
END;

-- call
INSERT INTO holdfast_reopen (items, places, is_fresh, wall) VALUES (:items, :places, :is_fresh, :wall);
