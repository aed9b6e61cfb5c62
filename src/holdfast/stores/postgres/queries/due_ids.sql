-- Only these jobs, which a transport delivered; all other conditions of a claim apply to them, too.
-- :ids; :queues, NULL: all.
SELECT job.ctid FROM holdfast.pending AS job
WHERE EXISTS (SELECT FROM owner) AND job.id = ANY(:ids::uuid[]) AND job.state = 'available' AND job.task = ANY(:tasks::text[])
    AND (job.queue = ANY(:queues::text[]) OR :queues IS NULL)
    AND job.queue NOT IN (SELECT paused.queue FROM holdfast.queues AS paused WHERE paused.paused_at IS NOT NULL)
    AND NOT -- include is_limited(job.task, job.queue)
    AND job.available_at <= (SELECT now FROM clock) AND -- include claimable(job, (SELECT now FROM clock))
ORDER BY job.priority, job.available_at, job.id LIMIT :room
FOR UPDATE SKIP LOCKED
