-- The first jobs of one range, after the last one taken, that no other session has locked.
-- :task, :priority, :queue, :key of the range; :seen_at and :seen_job, when the last one taken was due, and its id.
SELECT job.ctid FROM holdfast.pending AS job
WHERE EXISTS (SELECT FROM owner)
    AND NOT EXISTS (SELECT FROM holdfast.queues AS paused WHERE paused.queue = :queue::text AND paused.paused_at IS NOT NULL)
    AND NOT -- include is_limited(:task, :queue)
    AND job.state = 'available' AND job.task = :task AND job.priority = :priority AND job.queue = :queue AND job.key = :key
    AND job.available_at <= (SELECT now FROM clock) AND (job.available_at, job.id) > (:seen_at::timestamptz, :seen_job::uuid)
    AND -- include claimable(job, (SELECT now FROM clock))
ORDER BY job.available_at, job.id LIMIT :room
FOR UPDATE SKIP LOCKED
