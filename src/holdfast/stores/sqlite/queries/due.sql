-- The first jobs of these tasks that a claim would take now and that have been due for a while, in its order.
-- Ranges are walked as in exchange.sql; of each one only the first :limit jobs are read.
WITH RECURSIVE
ranges (task, queue, priority) AS (
    SELECT first.task, first.queue, first.priority
    FROM json_each(:tasks) AS known
    JOIN holdfast_jobs AS first ON first.rowid = (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = known.value
        ORDER BY job.queue, job.priority LIMIT 1
    )
    UNION ALL
    SELECT next.task, next.queue, next.priority
    FROM ranges
    JOIN holdfast_jobs AS next ON next.rowid = coalesce((
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.queue = ranges.queue
            AND job.priority > ranges.priority
        ORDER BY job.priority LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.queue > ranges.queue
        ORDER BY job.queue, job.priority LIMIT 1
    ))
),
ends AS MATERIALIZED (
    SELECT task, queue, priority, (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.queue = ranges.queue
            AND job.priority = ranges.priority AND job.available_at <= :wall - :age
            AND CASE
                WHEN job.claimable_until IS NULL THEN :normal
                WHEN job.claimable_until = 0 THEN :isolated
                ELSE :normal AND job.claimable_until > :wall
            END
        ORDER BY job.available_at, job.id LIMIT 1 OFFSET :limit - 1
    ) AS place
    FROM ranges
    WHERE (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
        AND queue NOT IN (SELECT paused.queue FROM holdfast_paused_queues AS paused)
),
-- MATERIALIZED, else the ends are looked up again for each job of the span.
spans AS MATERIALIZED (
    SELECT
        task, queue, priority,
        coalesce((SELECT job.available_at FROM holdfast_jobs AS job WHERE job.rowid = ends.place), :wall - :age) AS last_at,
        coalesce(
            (SELECT job.id FROM holdfast_jobs AS job WHERE job.rowid = ends.place), x'ffffffffffffffffffffffffffffffff'
        ) AS last_id
    FROM ends
)
SELECT job.id, job.queue, job.claim_number
FROM spans
CROSS JOIN holdfast_jobs AS job
WHERE job.state = 'available' AND job.task = spans.task AND job.queue = spans.queue
    AND job.priority = spans.priority AND (job.available_at, job.id) <= (spans.last_at, spans.last_id)
    AND CASE
        WHEN job.claimable_until IS NULL THEN :normal
        WHEN job.claimable_until = 0 THEN :isolated
        ELSE :normal AND job.claimable_until > :wall
    END
ORDER BY job.priority, job.available_at, job.id
LIMIT :limit;
