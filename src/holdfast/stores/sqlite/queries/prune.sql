-- Delete finished jobs whose retention is over with all their records, and old receipts, leases, snoozes and beats.
--
-- A temporary trigger, because it writes all tables in one step: see exchange.sql. A job whose retention is shorter than
-- the floor is pruned twice: its row is reduced to a stub first.
CREATE TEMP VIEW holdfast_prune (room, floor, wall) AS
SELECT NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_prune_all INSTEAD OF INSERT ON holdfast_prune
BEGIN
    DELETE FROM holdfast_touched;
    INSERT INTO holdfast_touched (what, id)
    SELECT iif(finished_at + NEW.floor <= NEW.wall, 'job', 'stub'), id FROM holdfast_jobs
    WHERE delete_after IS NOT NULL AND delete_after <= NEW.wall
        AND (flow IS NULL OR finished_at + NEW.floor > NEW.wall OR NOT -- include awaited(holdfast_jobs.id)
        )
    ORDER BY delete_after
    LIMIT NEW.room;

    -- The members of a workflow go before its root, which stays until the last one of them is deleted.
    INSERT INTO holdfast_touched (what, id)
    SELECT 'job', members.job
    FROM holdfast_touched AS touched
    CROSS JOIN holdfast_members AS members ON members.flow = touched.id
    LEFT JOIN holdfast_jobs AS jobs ON jobs.id = members.job -- none, if its row was lost
    WHERE touched.what = 'job' AND members.job <> members.flow AND coalesce(jobs.state, 'failed') IN ('completed', 'failed', 'cancelled')
        -- One whose rescue hook is due is kept for HOOK_RETENTION.
        AND (jobs.hook_due_at IS NULL OR jobs.finished_at <= NEW.wall - 604800000000)
    LIMIT NEW.room;
    DELETE FROM holdfast_touched WHERE what = 'job' AND EXISTS (
        SELECT 1 FROM holdfast_members AS members
        WHERE members.flow = holdfast_touched.id AND members.job NOT IN (SELECT id FROM holdfast_touched)
    );

    DELETE FROM holdfast_attempts WHERE job IN (SELECT id FROM holdfast_touched WHERE what = 'job');
    DELETE FROM holdfast_steps WHERE job IN (SELECT id FROM holdfast_touched WHERE what = 'job');
    DELETE FROM holdfast_signals WHERE job IN (SELECT id FROM holdfast_touched WHERE what = 'job');
    DELETE FROM holdfast_payloads WHERE job IN (SELECT id FROM holdfast_touched);
    -- include forget_members();
    DELETE FROM holdfast_jobs WHERE id IN (SELECT id FROM holdfast_touched WHERE what = 'job');
    UPDATE holdfast_jobs SET
        payload = CAST('null' AS BLOB), result = NULL, error = NULL, checkpoint = NULL, message = NULL, points = NULL, is_stub = 1,
        delete_after = finished_at + NEW.floor
    WHERE id IN (SELECT id FROM holdfast_touched WHERE what = 'stub');

    INSERT INTO holdfast_touched (what, id)
    SELECT 'attempt', rowid FROM holdfast_attempts
    WHERE requested_state = 'available' AND coalesce(outcome, 'released') IN ('released', 'snoozed') AND ended_at <= NEW.wall - NEW.floor
    ORDER BY ended_at, job, claim_number
    LIMIT NEW.room;
    DELETE FROM holdfast_attempts WHERE rowid IN (SELECT id FROM holdfast_touched WHERE what = 'attempt');

    -- Receipts are read in the order in which they were written. The first one shows whether a clock was ahead then and was set back.
    UPDATE holdfast_receipts SET received_at = NEW.wall
    WHERE received_at > NEW.wall AND (SELECT first.received_at FROM holdfast_receipts AS first ORDER BY first.place LIMIT 1) > NEW.wall;
    INSERT INTO holdfast_touched (what, id)
    SELECT 'receipt', call FROM (SELECT call, received_at FROM holdfast_receipts ORDER BY place LIMIT NEW.room)
    WHERE received_at + NEW.floor <= NEW.wall;
    DELETE FROM holdfast_receipts WHERE call IN (SELECT id FROM holdfast_touched WHERE what = 'receipt');

    INSERT INTO holdfast_touched (what, id)
    SELECT 'lease', id FROM holdfast_leases
    WHERE ended_at + NEW.floor <= NEW.wall
        AND NOT EXISTS (
            SELECT 1 FROM holdfast_jobs AS jobs WHERE jobs.lease = holdfast_leases.id AND jobs.state IN ('claimed', 'running')
        )
    LIMIT NEW.room;
    DELETE FROM holdfast_leases WHERE id IN (SELECT id FROM holdfast_touched WHERE what = 'lease');

    DELETE FROM holdfast_rates WHERE (scope, name, is_key, key) IN (
        SELECT scope, name, is_key, key FROM holdfast_rates WHERE ready_at <= NEW.wall LIMIT NEW.room
    );

    INSERT INTO holdfast_touched (what, id)
    SELECT 'beat', rowid FROM holdfast_beats WHERE delete_after <= NEW.wall ORDER BY delete_after LIMIT NEW.room;
    DELETE FROM holdfast_beats WHERE rowid IN (SELECT id FROM holdfast_touched WHERE what = 'beat');

    -- Actions of operators go after AUDIT_RETENTION.
    DELETE FROM holdfast_audits WHERE id IN (
        SELECT id FROM holdfast_audits WHERE at <= NEW.wall - 7776000000000 ORDER BY at LIMIT NEW.room
    );
END;

-- call
INSERT INTO holdfast_prune (room, floor, wall) VALUES (:limit, :floor, :wall);
