-- The same as exchange.sql, but it takes any number of jobs from each lane, across the tasks of the lane.
--
-- A second trigger beside the first, so that claims from one lane do not pay for counting its jobs: that is a tenth of a claim.

CREATE TEMP TRIGGER holdfast_claim_lanes INSTEAD OF INSERT ON holdfast_exchange WHEN NOT NEW.is_even
BEGIN
    DELETE FROM holdfast_due;
    INSERT INTO holdfast_due (place, policy, is_limited, worker, last_number)
    SELECT * FROM (
        WITH
        -- include owner(NEW.lease, NEW.voids, NEW.monotonic, NEW.boot, NEW.clock, 1),
        -- include spans(NEW.ranges),
        found AS (
            SELECT
                job.rowid AS place, job.priority, job.available_at, job.id, spans.policy, spans.is_limited, spans.number,
                owner.worker, owner.last_number,
                row_number() OVER (
                    PARTITION BY job.priority, job.queue, job.key ORDER BY job.available_at, job.id
                ) AS turn
            FROM owner
            CROSS JOIN spans
            CROSS JOIN holdfast_jobs AS job
            WHERE job.state = 'available' AND job.task = spans.task AND job.priority = spans.priority AND job.queue = spans.queue
                AND job.key = spans.key AND (job.available_at, job.id) <= (spans.last_at, spans.last_id)
                AND -- include claimable(job, NEW.normal, NEW.isolated, NEW.wall)
        )
        SELECT place, policy, is_limited, worker, last_number
        FROM found
        WHERE turn <= number
        ORDER BY priority, available_at, id
        LIMIT NEW.room
    );
    -- include take_due();
END;

-- call
INSERT INTO holdfast_exchange (
    items, data, kinds, lease, voids, claim_id, tasks, normal, isolated, running, room, wall, monotonic, boot, clock, ranges, most, is_even
) VALUES (
    :items, :data, :kinds, :lease, :voids, :claim_id, :tasks, :normal, :isolated, :running, :room, :wall, :monotonic, :boot, :clock, :ranges,
    :most, false
);
