-- The first due jobs of all ranges of the known tasks in these queues, in one statement.
-- :queues, NULL: all; :most, how many ranges of a queue are looked at.
-- It is for a worker with few jobs: an additional statement would only delay the next job. parts/ranges.sql describes the walk.
-- The lease is locked only once a job is found: a search that finds nothing writes nothing.
WITH RECURSIVE -- include ranges()

SELECT job.ctid FROM holdfast.pending AS job
WHERE job.ctid = ANY(ARRAY(
        SELECT candidate.place
        FROM (
            SELECT task, queue, priority FROM walk
            WHERE due IS NOT NULL AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
            ORDER BY priority, due_at, due LIMIT :most
        ) AS range CROSS JOIN LATERAL (
            SELECT job.ctid AS place FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = range.task AND job.queue = range.queue AND job.priority = range.priority
                AND job.available_at <= (SELECT now FROM clock) AND -- include claimable(job, (SELECT now FROM clock))
            ORDER BY job.available_at, job.id LIMIT :room::bigint
        ) AS candidate
    ))
    -- Check again under the lock: the row may have changed. IS TRUE keeps the planner off the index.
    AND (job.state = 'available' AND job.available_at <= (SELECT now FROM clock)) IS TRUE
    AND CASE WHEN job.id IS NOT NULL THEN EXISTS (SELECT FROM owner) END
ORDER BY job.priority, job.available_at, job.id LIMIT :room
FOR UPDATE SKIP LOCKED
