-- Whether a range of the known tasks beside that of due_range.sql is as urgent or more urgent: the next claim must serve its lane, too.
-- A range whose jobs are not due counts: then the next claim only costs more. others_wanted.sql is for a worker of some queues.
EXISTS (
    SELECT FROM unnest(:tasks::text[]) AS known (task) CROSS JOIN LATERAL (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = known.task AND (job.priority, job.queue, job.key) < (
            CASE WHEN known.task = :task THEN :priority ELSE :priority + 1 END,
            CASE WHEN known.task = :task THEN :queue ELSE '' END, CASE WHEN known.task = :task THEN :key ELSE '' END
        )
        LIMIT 1
    ) AS other
) OR EXISTS (
    SELECT FROM holdfast.pending AS job
    WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND (job.queue, job.key) > (:queue, :key)
)
