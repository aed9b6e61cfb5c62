-- Of several lines, tasks $17, queues $18, priorities $19, the first due jobs of each are candidates, and $23 more for those
-- that others hold locked; of all candidates the first are locked, as many as asked and no more. All before the place
-- (priority $20, instant $21, job $22) was taken or locked just now.
SELECT job.ctid FROM holdfast.pending AS job
WHERE job.ctid = ANY(ARRAY(
        SELECT candidate.place
        FROM unnest($17::text[], $18::text[], $19::bigint[]) AS line (task, queue, priority) CROSS JOIN LATERAL (
            SELECT job.ctid AS place FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = line.task AND job.queue = line.queue AND job.priority = line.priority
                AND job.available_at <= (SELECT now FROM clock) AND (job.available_at, job.id) > (
                    CASE WHEN line.priority <= $20 THEN $21::timestamptz ELSE '-infinity' END,
                    CASE WHEN line.priority <= $20 THEN $22::uuid ELSE '00000000-0000-0000-0000-000000000000' END
                ) AND CASE
                    WHEN job.proviso IS NULL THEN $14
                    WHEN job.proviso = '-infinity' THEN $15
                    ELSE $14 AND job.proviso > (SELECT now FROM clock)
                END
            ORDER BY job.available_at, job.id LIMIT $9::bigint + $23::bigint
        ) AS candidate
        WHERE EXISTS (SELECT FROM owner) AND line.queue NOT IN (SELECT paused.queue FROM holdfast.paused AS paused)
    ))
    -- Again, for whoever is changed just now; said so that no index is used for it.
    AND (job.state = 'available' AND job.available_at <= (SELECT now FROM clock)) IS TRUE
ORDER BY job.priority, job.available_at, job.id LIMIT $9
FOR UPDATE SKIP LOCKED
