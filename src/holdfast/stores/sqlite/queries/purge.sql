-- Delete some waiting jobs of a queue that were enqueued by :until, with all their records.
--
-- A temporary trigger, because it writes several tables in one step: see exchange.sql.
CREATE TEMP VIEW holdfast_purge (queue, room, until, with_members) AS
SELECT NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_purge_waiting INSTEAD OF INSERT ON holdfast_purge
BEGIN
    DELETE FROM holdfast_touched;
    INSERT INTO holdfast_touched (what, id, task)
    SELECT 'job', job.id, job.task
    FROM (
        WITH RECURSIVE -- include queue_ranges()
        SELECT task, priority FROM queue_ranges
    ) AS known
    CROSS JOIN holdfast_jobs AS job
    WHERE job.state = 'available' AND job.task = known.task AND job.priority = known.priority AND job.queue = NEW.queue
        AND job.created_at <= NEW.until
        AND (job.flow IS NULL OR (NEW.with_members AND -- include lone(job.id)
        ))
    LIMIT NEW.room;
    DELETE FROM holdfast_steps WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_signals WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_payloads WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_attempts WHERE job IN (SELECT id FROM holdfast_touched);
    -- include forget_members();
    DELETE FROM holdfast_jobs WHERE id IN (SELECT id FROM holdfast_touched);
END;

-- call
INSERT INTO holdfast_purge (queue, room, until, with_members) VALUES (:queue, :limit, :until, :with_members);
