-- Select ended jobs whose rescue hook is due, the longest due first; each is due again after a pause that grows with its age.
--
-- A temporary trigger, so that these jobs can be read afterwards, without any lock: see exchange.sql.
CREATE TEMP VIEW holdfast_delay (tasks, room, pause, longest, wall) AS
SELECT NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_delay_owed_hooks INSTEAD OF INSERT ON holdfast_delay
BEGIN
    DELETE FROM holdfast_touched;
    INSERT INTO holdfast_touched (what, id, task)
    SELECT 'job', job.id, job.task
    FROM json_each(NEW.tasks) AS known
    CROSS JOIN holdfast_jobs AS job ON job.task = known.value
    WHERE job.hook_due_at IS NOT NULL AND job.hook_due_at <= NEW.wall AND job.state IN ('held', 'completed', 'failed', 'cancelled')
    ORDER BY job.hook_due_at, job.id
    LIMIT NEW.room;
    UPDATE holdfast_jobs
    SET hook_due_at = NEW.wall + min(max(NEW.pause, NEW.wall - coalesce(finished_at, available_at)), NEW.longest)
    WHERE id IN (SELECT id FROM holdfast_touched);
END;

-- call
INSERT INTO holdfast_delay (tasks, room, pause, longest, wall) VALUES (:tasks, :limit, :pause, :longest, :wall);
