-- The same as others.sql for a worker of some queues. A range that is more urgent counts, of any queue: the next claim only costs
-- more.
-- :queues.
EXISTS (
    SELECT FROM unnest(:tasks::text[]) AS known (task) CROSS JOIN LATERAL (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = known.task
            AND job.priority < CASE WHEN known.task = :task THEN :priority ELSE :priority + 1 END
        LIMIT 1
    ) AS other
) OR EXISTS (
    SELECT FROM unnest(:queues::text[]) AS wanted (queue) CROSS JOIN LATERAL (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue = wanted.queue
        LIMIT 1
    ) AS other
    WHERE wanted.queue <> :queue
) OR EXISTS (
    SELECT FROM holdfast.pending AS job
    WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue = :queue AND job.key < :key
) OR EXISTS (
    SELECT FROM holdfast.pending AS job
    WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue = :queue AND job.key > :key
)
