-- Whether a range of the known tasks beside that of due_range.sql is as urgent or more urgent: the next claim must serve its lane, too.
-- A range whose jobs are not due, or of another queue than the wanted ones but more urgent, counts: then the next claim only costs more.
CASE
    WHEN EXISTS (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = :task AND job.priority < :priority
    ) THEN true
    WHEN EXISTS (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue = :queue AND job.key < :key
    ) THEN true
    WHEN EXISTS (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue = :queue AND job.key > :key
    ) THEN true
    WHEN :queues::text[] IS NULL THEN EXISTS (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue < :queue
    ) OR EXISTS (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue > :queue
    )
    ELSE EXISTS (
        SELECT FROM unnest(:queues::text[]) AS wanted (queue) CROSS JOIN LATERAL (
            SELECT FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue = wanted.queue
            LIMIT 1
        ) AS other
        WHERE wanted.queue <> :queue
    )
END OR EXISTS (
    SELECT FROM unnest(:tasks::text[]) AS known (task) CROSS JOIN LATERAL (
        SELECT FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = known.task AND job.priority <= :priority
        LIMIT 1
    ) AS other
    WHERE known.task <> :task
)
