-- The same as exchange.sql, for jobs that a transport delivered, or that were chosen within their limits.
-- All other conditions of a claim apply.
--
-- A second trigger beside the first, so that claims by range do not pay for it. :ids are 16 bytes each.

CREATE TEMP TRIGGER holdfast_claim_ids INSTEAD OF INSERT ON holdfast_exchange WHEN NEW.ids IS NOT NULL
BEGIN
    DELETE FROM holdfast_due;
    INSERT INTO holdfast_due (place, policy, is_limited, worker, last_number)
    SELECT * FROM (
        WITH RECURSIVE
        -- include owner(NEW.lease, NEW.voids, NEW.monotonic, NEW.boot, NEW.clock, 1),
        asked (place, id) AS (
            SELECT 0, substr(NEW.ids, 1, 16)
            UNION ALL
            SELECT place + 1, substr(NEW.ids, 16 * place + 17, 16) FROM asked WHERE 16 * place + 16 < length(NEW.ids)
        ),
        known AS MATERIALIZED (
            SELECT
                key AS task, value AS policy,
                coalesce(json_extract(value, '$.timeout'), json_extract(value, '$.progress_within')) IS NOT NULL AS is_limited
            FROM json_each(NEW.tasks)
        )
        SELECT job.rowid, known.policy, known.is_limited, owner.worker, owner.last_number
        FROM owner
        CROSS JOIN asked
        CROSS JOIN holdfast_jobs AS job ON job.id = asked.id
        JOIN known ON known.task = job.task
        WHERE job.state = 'available' AND job.available_at <= NEW.wall
            AND -- include claimable(job, NEW.normal, NEW.isolated, NEW.wall)
            AND (NEW.queues IS NULL OR job.queue IN (SELECT value FROM json_each(NEW.queues)))
            AND job.queue NOT IN (-- include paused())
            AND (NEW.within_limits OR NOT -- include is_limited(job.task, job.queue)
            )
        ORDER BY job.priority, job.available_at, job.id
        LIMIT NEW.room
    );
    -- include take_due();
END;

-- call
INSERT INTO holdfast_exchange (
    items, data, kinds, lease, voids, claim_id, tasks, queues, normal, isolated, running, room, wall, monotonic, boot, clock, ids, within_limits
) VALUES (
    :items, :data, :kinds, :lease, :voids, :claim_id, :tasks, :queues, :normal, :isolated, :running, :room, :wall, :monotonic, :boot,
    :clock, :ids, :within_limits
);
