-- Only these jobs, which were chosen within their limits a moment ago: judged again under the lock.
-- :ids.
SELECT job.ctid FROM holdfast.pending AS job
WHERE EXISTS (SELECT FROM owner) AND job.id = ANY(:ids::uuid[]) AND job.state = 'available'
    AND job.available_at <= (SELECT now FROM clock) AND -- include claimable(job, (SELECT now FROM clock))
ORDER BY job.priority, job.available_at, job.id LIMIT :room
FOR UPDATE SKIP LOCKED
