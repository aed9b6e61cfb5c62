-- Move a schedule on from its due tick and insert the job of a tick, in one step; nothing if another caller was faster.
--
-- The job is inserted as enqueue_one.sql inserts it. An earlier job that has not finished is judged in the same step, by :overlap. One
-- that is a workflow is cancelled by schedules.py, in the same transaction.
CREATE TEMP VIEW holdfast_advance (
    name, version, next_version, change, tick, following, overlap, call, id, task, queue, key, priority, delay, run_at, expires_in, tags, extra, policy,
    payload, wall, inline
) AS
SELECT
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_advance_once INSTEAD OF INSERT ON holdfast_advance
WHEN EXISTS (
    SELECT 1 FROM holdfast_schedules
    WHERE name = NEW.name AND version = NEW.version AND next_at <= NEW.wall AND paused_at IS NULL
)
BEGIN
    UPDATE holdfast_schedules SET
        last_tick = NEW.tick,
        next_at = NEW.following,
        version = NEW.next_version,
        change = NEW.change
    WHERE name = NEW.name;

    INSERT INTO holdfast_enqueue_one (
        call, id, task, queue, key, priority, delay, run_at, expires_in, tags, extra, policy, payload, wall, inline
    )
    SELECT
        NEW.call, NEW.id, NEW.task, NEW.queue, NEW.key, NEW.priority, NEW.delay, NEW.run_at, NEW.expires_in,
        NEW.tags, NEW.extra, NEW.policy,
        NEW.payload, NEW.wall, NEW.inline
    WHERE NEW.id IS NOT NULL AND (NEW.overlap <> 'skip' OR NOT EXISTS (
        SELECT 1 FROM holdfast_schedules AS schedules JOIN holdfast_jobs AS jobs ON jobs.id = schedules.last_job
        WHERE schedules.name = NEW.name AND jobs.state NOT IN ('completed', 'failed', 'cancelled')
    ));

    UPDATE holdfast_jobs SET
        -- include cancelled(NEW.wall)
    WHERE NEW.id IS NOT NULL AND NEW.overlap = 'cancel'
        AND id = (SELECT last_job FROM holdfast_schedules WHERE name = NEW.name)
        AND state NOT IN ('completed', 'failed', 'cancelled') AND flow IS NULL;

    UPDATE holdfast_schedules SET last_job = NEW.id
    WHERE name = NEW.name AND EXISTS (SELECT 1 FROM holdfast_jobs WHERE id = NEW.id);
END;

-- call
INSERT INTO holdfast_advance (
    name, version, next_version, change, tick, following, overlap, call, id, task, queue, key, priority, delay, run_at, expires_in, tags, extra, policy,
    payload, wall, inline
) VALUES (
    :schedule, :version, :next_version, :change, :tick, :following, :overlap, :id, :id, :task, :queue, :key, :priority, :delay, :run_at, :expires_in,
    :tags, :extra, :policy, :payload, :wall, :inline
);
