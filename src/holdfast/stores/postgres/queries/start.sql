-- Claimed to running under the token, unless the lease has ended; a job that runs already stays as it is. Answers all that run.
-- Every one of them is written, so that of two copies sent at once the later one sees what the earlier one did.
-- Lock order: leases, then jobs.
WITH asked AS MATERIALIZED (
    SELECT job, claim, number FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS asked (job, claim, number)
),

alive AS MATERIALIZED (
    SELECT lease.id
    FROM holdfast.leases AS lease
    WHERE lease.ended_at IS NULL AND lease.id = ANY(ARRAY(
        SELECT job.lease FROM asked JOIN holdfast.active AS job ON job.id = asked.job
    ))
    ORDER BY lease.id
    FOR KEY SHARE
)

UPDATE holdfast.active AS job SET
    state = 'running',
    attempt = job.attempt + (job.state = 'claimed')::integer,
    started_at = CASE WHEN job.state = 'claimed' THEN (SELECT clock_timestamp()) ELSE job.started_at END,
    moved_at = CASE WHEN job.state = 'claimed' THEN NULL ELSE job.moved_at END
FROM asked, alive
WHERE job.id = asked.job AND job.claim = asked.claim AND job.number = asked.number AND job.lease = alive.id
RETURNING job.id, job.claim, job.number;
