-- Return the first jobs of these tasks that a claim would take now and that have been due for a while, by priority and time.
-- Of each range only the first :limit jobs are read.
WITH RECURSIVE
-- include ranges(-1),
ends AS MATERIALIZED (
    SELECT task, priority, queue, key, (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.priority = ranges.priority AND job.queue = ranges.queue
            AND job.key = ranges.key AND job.available_at <= :wall - :age
            AND -- include claimable(job, :normal, :isolated, :wall)
        ORDER BY job.available_at, job.id LIMIT 1 OFFSET :limit - 1
    ) AS place
    FROM ranges
    WHERE (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
        AND queue NOT IN (-- include paused())
        AND NOT -- include is_limited(ranges.task, ranges.queue)
),
-- MATERIALIZED, else SQLite looks the ends up again for each job of the span.
spans AS MATERIALIZED (
    SELECT
        task, priority, queue, key,
        coalesce((SELECT job.available_at FROM holdfast_jobs AS job WHERE job.rowid = ends.place), :wall - :age) AS last_at,
        coalesce(
            (SELECT job.id FROM holdfast_jobs AS job WHERE job.rowid = ends.place), x'ffffffffffffffffffffffffffffffff'
        ) AS last_id
    FROM ends
)
SELECT job.id, job.queue, job.claim_number
FROM spans
CROSS JOIN holdfast_jobs AS job
WHERE job.state = 'available' AND job.task = spans.task AND job.priority = spans.priority AND job.queue = spans.queue
    AND job.key = spans.key AND (job.available_at, job.id) <= (spans.last_at, spans.last_id)
    AND -- include claimable(job, :normal, :isolated, :wall)
ORDER BY job.priority, job.available_at, job.id
LIMIT :limit;
