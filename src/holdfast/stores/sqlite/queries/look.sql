-- Return the lanes that a claim could serve, in the order in which it meets them, with the jobs due in each: one row for each task.
--
-- It is read without the lock of the file: exchange.sql judges each job again. For each of :walks, a task, a loose index scan goes
-- straight from lane to lane: by priority, then round the ring from the turn in :turns on. :share: the jobs that a lane gives, for each
-- job of its weight. :counted: the jobs of it that are counted. The scan ends when the lanes hold all jobs asked for and one more lane of
-- their ring is found, or after :steps lanes, due or not. A row judges the lane that the row before it has met.
-- A mode orders the lanes of a ring: 1, from the turn on; 2, before it, or without a turn; -1 and 0 stand for the turn itself, with jobs
-- left of it and without; 3, the ring is over. A weight of 0: the queue is paused or not wanted.
-- :caps: NULL, for lanes that no limit counts; else for lanes within limits, the jobs that each scope and each of its keys allows.
WITH RECURSIVE
-- include owner(:lease, :voids, :monotonic, :boot, :clock, :is_settled),
turns AS MATERIALIZED (
    SELECT
        json_extract(value, '$[0]') AS priority, json_extract(value, '$[1]') AS queue, json_extract(value, '$[2]') AS key,
        json_extract(value, '$[3]') > 0 AS is_begun
    FROM json_each(:turns)
),
caps AS MATERIALIZED (
    SELECT
        json_extract(value, '$[0]') AS scope, json_extract(value, '$[1]') AS name, json_extract(value, '$[2]') AS key,
        json_extract(value, '$[3]') AS room
    FROM json_each(coalesce(:caps, '[]'))
),
walk (
    task, step, before, priority, queue, key, mode, weight, due, next_priority, next_queue, next_key, next_mode, next_weight
) AS (
    SELECT
        json_extract(value, '$[0]'), 0, json_extract(value, '$[1]'), NULL, NULL, NULL, NULL, 0, 0,
        json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]'),
        json_extract(value, '$[5]'), json_extract(value, '$[6]')
    FROM owner, json_each(:walks)
    WHERE :caps IS NOT NULL OR NOT -- include is_limited(json_extract(value, '$[0]'), NULL)
    UNION ALL
    SELECT
        walk.task, walk.step + 1, -- include seen(walk),
        walk.next_priority, walk.next_queue, walk.next_key, walk.next_mode, walk.next_weight,
        CASE
            WHEN walk.next_mode NOT IN (1, 2) OR walk.next_weight = 0 THEN 0
            WHEN :caps IS NOT NULL THEN min((-- include due_jobs(walk, :most)), coalesce((
                SELECT min(caps.room) FROM caps
                WHERE (
                        caps.scope = 'all' OR (caps.scope = 'task' AND caps.name = walk.task)
                        OR (caps.scope = 'queue' AND caps.name = walk.next_queue)
                    ) AND (caps.key IS NULL OR caps.key = walk.next_key)
            ), 0))
            WHEN walk.next_weight = 1 THEN (-- include due_jobs(walk, :counted))
            ELSE (-- include due_jobs(walk, :most))
        END,
        next.priority,
        iif(next.priority <> walk.next_priority AND turns.priority IS NOT NULL, turns.queue, next.queue),
        iif(next.priority <> walk.next_priority AND turns.priority IS NOT NULL, turns.key, next.key),
        CASE
            WHEN next.priority <> walk.next_priority THEN iif(turns.priority IS NULL, 2, -turns.is_begun)
            WHEN walk.next_mode < 2 AND (next.queue, next.key) > (walk.next_queue, walk.next_key) THEN 1
            WHEN walk.next_mode = -1 AND (next.queue, next.key) = (walk.next_queue, walk.next_key) THEN 1
            WHEN turns.priority IS NULL OR (next.queue, next.key) < (turns.queue, turns.key) THEN 2
            WHEN (next.queue, next.key) = (turns.queue, turns.key) AND NOT turns.is_begun THEN 2
            ELSE 3
        END,
        CASE
            WHEN next.priority <> walk.next_priority AND turns.priority IS NOT NULL THEN 1
            WHEN :queues IS NOT NULL AND next.queue NOT IN (SELECT value FROM json_each(:queues)) THEN 0
            WHEN :caps IS NULL AND EXISTS (
                SELECT 1 FROM holdfast_limits AS limits WHERE limits.scope = 'queue' AND limits.name = next.queue
            ) THEN 0
            WHEN :caps IS NOT NULL AND NOT -- include is_limited(walk.task, next.queue)
            THEN 0
            WHEN chosen.queue IS NULL THEN 1
            WHEN chosen.paused_at IS NOT NULL THEN 0
            WHEN chosen.key_weights IS NULL THEN chosen.weight
            ELSE chosen.weight * coalesce((SELECT weights.value FROM json_each(chosen.key_weights) AS weights WHERE weights.key = next.key), 1)
        END
    FROM walk
    -- Several searches, because a comparison of rows, (queue, key) > (…), would read the rest of the current range.
    LEFT JOIN holdfast_jobs AS next ON next.rowid = coalesce((
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = walk.task AND job.priority = walk.next_priority
            AND job.queue = walk.next_queue AND job.key = walk.next_key AND walk.next_mode = -1
        LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = walk.task AND job.priority = walk.next_priority
            AND job.queue = walk.next_queue AND job.key > walk.next_key AND walk.next_mode < 3 AND walk.next_weight > 0
        ORDER BY job.key LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = walk.task AND job.priority = walk.next_priority
            AND job.queue > walk.next_queue AND walk.next_mode < 3 AND :queues IS NULL
        ORDER BY job.queue, job.key LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = walk.task AND job.priority = walk.next_priority
            AND job.queue >= (SELECT min(wanted.value) FROM json_each(:queues) AS wanted WHERE wanted.value > walk.next_queue)
            AND walk.next_mode < 3
        ORDER BY job.queue, job.key LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = walk.task AND job.priority = walk.next_priority AND walk.next_mode < 2
        ORDER BY job.queue, job.key LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = walk.task AND job.priority > walk.next_priority
            AND -- include seen(walk) < :most
        ORDER BY job.priority, job.queue, job.key LIMIT 1
    ))
    LEFT JOIN turns ON turns.priority = next.priority
    LEFT JOIN holdfast_queues AS chosen ON chosen.queue = next.queue
    WHERE walk.next_priority IS NOT NULL AND walk.step < :steps
        AND (-- include seen(walk) < :most OR (walk.next_priority = walk.priority AND (walk.before < :most OR walk.due = 0)))
)
SELECT task, step, before, priority, queue, key, mode, weight, due, next_priority, next_queue, next_key, next_mode, next_weight
FROM walk
WHERE due > 0 OR (step = :steps AND next_priority IS NOT NULL);
