-- The first due jobs of each of several ranges are candidates. The first of all candidates are locked, as many as the claim asks for.
-- All jobs before the last one taken were taken or locked just now.
-- :range_tasks, :range_queues, :range_priorities; :seen_priority, :seen_at, :seen_job of the last one taken;
-- :slack, how many more are read of each range for those that other sessions hold locked.
SELECT job.ctid FROM holdfast.pending AS job
WHERE job.ctid = ANY(ARRAY(
        SELECT candidate.place
        FROM unnest(:range_tasks::text[], :range_queues::text[], :range_priorities::bigint[]) AS range (task, queue, priority) CROSS JOIN LATERAL (
            SELECT job.ctid AS place FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = range.task AND job.queue = range.queue AND job.priority = range.priority
                AND job.available_at <= (SELECT now FROM clock) AND (job.available_at, job.id) > (
                    CASE WHEN range.priority <= :seen_priority THEN :seen_at::timestamptz ELSE '-infinity' END,
                    CASE WHEN range.priority <= :seen_priority THEN :seen_job::uuid ELSE '00000000-0000-0000-0000-000000000000' END
                ) AND -- include claimable(job, (SELECT now FROM clock))
            ORDER BY job.available_at, job.id LIMIT :room::bigint + :slack::bigint
        ) AS candidate
        WHERE EXISTS (SELECT FROM owner) AND range.queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
    ))
    -- Check again under the lock: the row may have changed. IS TRUE keeps the planner off the index.
    AND (job.state = 'available' AND job.available_at <= (SELECT now FROM clock)) IS TRUE
ORDER BY job.priority, job.available_at, job.id LIMIT :room
FOR UPDATE SKIP LOCKED
