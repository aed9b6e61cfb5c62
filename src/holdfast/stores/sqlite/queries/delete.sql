-- Delete jobs that no worker owns, or with :only_waiting just waiting ones, with all their records.
--
-- A temporary trigger, because it writes several tables in one step: see exchange.sql.
CREATE TEMP VIEW holdfast_delete (items, places, only_waiting) AS
SELECT NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_delete_unowned INSTEAD OF INSERT ON holdfast_delete
BEGIN
    DELETE FROM holdfast_touched;
    INSERT INTO holdfast_touched (what, id, task)
    SELECT 'job', id, task FROM holdfast_jobs
    WHERE id IN (SELECT substr(NEW.items, 72 * value + 1, 16) FROM json_each(NEW.places))
        AND (state = 'available' OR (NOT NEW.only_waiting AND state NOT IN ('claimed', 'running')))
        AND NOT EXISTS (
            SELECT 1 FROM holdfast_jobs AS root
            WHERE root.id = holdfast_jobs.flow AND root.state NOT IN ('completed', 'failed', 'cancelled')
                AND NOT (root.id = holdfast_jobs.id AND -- include lone(root.id)
                )
        )
        AND NOT EXISTS (
            SELECT 1 FROM holdfast_members AS members
            JOIN holdfast_jobs AS jobs ON jobs.id = members.job
            WHERE members.flow = holdfast_jobs.id AND members.job <> members.flow
                AND jobs.state NOT IN ('completed', 'failed', 'cancelled')
        )
        AND (
            flow IS NULL OR (flow = id AND state NOT IN ('completed', 'failed', 'cancelled'))
            OR (state IN ('completed', 'failed', 'cancelled') AND NOT -- include awaited(holdfast_jobs.flow)
            )
        );
    -- The members of deleted roots go with them.
    INSERT INTO holdfast_touched (what, id)
    SELECT 'job', members.job
    FROM holdfast_touched AS touched
    CROSS JOIN holdfast_members AS members ON members.flow = touched.id;
    DELETE FROM holdfast_steps WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_signals WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_payloads WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_attempts WHERE job IN (SELECT id FROM holdfast_touched);
    -- include forget_members();
    DELETE FROM holdfast_jobs WHERE id IN (SELECT id FROM holdfast_touched);
END;

-- call
INSERT INTO holdfast_delete (items, places, only_waiting) VALUES (:items, :places, :only_waiting);
