-- Set the priority and the weights of a queue, or forget them, and move its waiting jobs to the new priority, all in one write.
--
-- A temporary trigger, because it writes two tables in one step: see exchange.sql. :key_weights: NULL forgets the settings.
CREATE TEMP VIEW holdfast_set_queue (queue, priority, weight, key_weights, origin) AS
SELECT NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_set_one_queue INSTEAD OF INSERT ON holdfast_set_queue
BEGIN
    UPDATE holdfast_jobs SET
        priority = priority + NEW.priority - coalesce((
            SELECT queues.priority FROM holdfast_queues AS queues WHERE queues.queue = NEW.queue
        ), 0)
    WHERE rowid IN (
        WITH RECURSIVE -- include queue_ranges()
        SELECT job.rowid
        FROM queue_ranges AS known
        CROSS JOIN holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = known.task AND job.priority = known.priority AND job.queue = NEW.queue
        UNION ALL
        SELECT job.rowid FROM holdfast_jobs AS job WHERE job.state = 'held' AND job.queue = NEW.queue
        UNION ALL
        SELECT job.rowid FROM holdfast_jobs AS job WHERE job.state = 'blocked' AND job.queue = NEW.queue
    ) AND NEW.priority <> coalesce((
        SELECT queues.priority FROM holdfast_queues AS queues WHERE queues.queue = NEW.queue
    ), 0);

    INSERT INTO holdfast_queues (queue, priority, weight, key_weights, origin)
    VALUES (NEW.queue, NEW.priority, NEW.weight, NEW.key_weights, NEW.origin)
    ON CONFLICT DO UPDATE SET
        priority = excluded.priority, weight = excluded.weight, key_weights = excluded.key_weights, origin = excluded.origin;

    -- include forget_queues();
END;

-- call
INSERT INTO holdfast_set_queue (queue, priority, weight, key_weights, origin)
VALUES (:queue, :priority, :weight, :key_weights, :origin);
