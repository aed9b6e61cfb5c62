-- Return the first lane in which jobs of these tasks wait, whether it is the only one, and then whether a job of it is due.
-- A lane whose queue has settings does not count as the only one, nor does any while there are limits.
--
-- Two rows: there may be others. No row: no job waits.
-- It is read before look.sql: a single lane is known by the first and the last job of the index, at a tenth of the cost.
WITH edges AS (
    SELECT
        first.task, first.priority AS next_priority, first.queue AS next_queue, first.key AS next_key,
        (first.priority, first.queue, first.key) = (last.priority, last.queue, last.key) AS is_single
    FROM json_each(:tasks) AS known
    JOIN holdfast_jobs AS first ON first.rowid = (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = known.value
        ORDER BY job.priority, job.queue, job.key LIMIT 1
    )
    JOIN holdfast_jobs AS last ON last.rowid = (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = known.value
        ORDER BY job.priority DESC, job.queue DESC, job.key DESC LIMIT 1
    )
    LIMIT 2
)
SELECT
    task, next_priority, next_queue, next_key,
    is_single AND NOT EXISTS (SELECT 1 FROM holdfast_queues AS queues WHERE queues.queue = next_queue)
        AND NOT EXISTS (SELECT 1 FROM holdfast_limits),
    iif(is_single, (-- include due_jobs(edges, 1)), 0)
FROM edges;
