-- Of several ranges, tasks $17, queues $18, priorities $19, the first due jobs of each are candidates.
-- $23 more are read of each for those that other sessions hold locked. Of all candidates the first are locked, as many as asked.
-- All before the position (priority $20, instant $21, job $22) was taken or locked just now.
SELECT job.ctid FROM holdfast.pending AS job
WHERE job.ctid = ANY(ARRAY(
        SELECT candidate.place
        FROM unnest($17::text[], $18::text[], $19::bigint[]) AS range (task, queue, priority) CROSS JOIN LATERAL (
            SELECT job.ctid AS place FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = range.task AND job.queue = range.queue AND job.priority = range.priority
                AND job.available_at <= (SELECT now FROM clock) AND (job.available_at, job.id) > (
                    CASE WHEN range.priority <= $20 THEN $21::timestamptz ELSE '-infinity' END,
                    CASE WHEN range.priority <= $20 THEN $22::uuid ELSE '00000000-0000-0000-0000-000000000000' END
                ) AND -- include claimable(job, $14, $15, (SELECT now FROM clock))
            ORDER BY job.available_at, job.id LIMIT $9::bigint + $23::bigint
        ) AS candidate
        WHERE EXISTS (SELECT FROM owner) AND range.queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
    ))
    -- Check again under the lock: the row may have changed. IS TRUE keeps the planner off the index.
    AND (job.state = 'available' AND job.available_at <= (SELECT now FROM clock)) IS TRUE
ORDER BY job.priority, job.available_at, job.id LIMIT $9
FOR UPDATE SKIP LOCKED
