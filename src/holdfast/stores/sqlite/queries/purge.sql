-- Delete some waiting jobs of a queue that were enqueued by :until, with all their records.
--
-- A temporary trigger, because it writes three tables in one step: see exchange.sql.
CREATE TEMP VIEW holdfast_purge (queue, room, until) AS
SELECT NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_purge_waiting INSTEAD OF INSERT ON holdfast_purge
BEGIN
    DELETE FROM holdfast_touched;
    INSERT INTO holdfast_touched (what, id, task)
    SELECT 'job', job.id, job.task
    FROM (
        -- A loose index scan goes from one task straight to the next.
        WITH RECURSIVE tasks (name) AS (
            SELECT min(task) FROM holdfast_jobs WHERE state = 'available'
            UNION ALL
            SELECT (SELECT min(task) FROM holdfast_jobs WHERE state = 'available' AND task > name)
            FROM tasks WHERE name IS NOT NULL
        )
        SELECT name FROM tasks WHERE name IS NOT NULL
    ) AS tasks
    CROSS JOIN holdfast_jobs AS job ON job.state = 'available' AND job.task = tasks.name AND job.queue = NEW.queue
    WHERE job.created_at <= NEW.until
    LIMIT NEW.room;
    DELETE FROM holdfast_payloads WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_attempts WHERE job IN (SELECT id FROM holdfast_touched);
    DELETE FROM holdfast_jobs WHERE id IN (SELECT id FROM holdfast_touched);
END;

-- call
INSERT INTO holdfast_purge (queue, room, until) VALUES (:queue, :limit, :until);
