-- Move claimed jobs to running under their tokens, unless the lease has ended; a job that runs already stays as it is. Return all
-- that run.
-- :jobs, :claims, :numbers (ascending, each once), found as exchange.sql describes.
-- It writes every one of these rows, so that of two copies sent at once the later one sees what the earlier one did.
-- Lock order: leases, then jobs.
WITH alive AS MATERIALIZED (
    SELECT lease.id
    FROM holdfast.leases AS lease
    WHERE lease.ended_at IS NULL AND lease.id = ANY(ARRAY(SELECT job.lease FROM holdfast.active AS job WHERE job.id = ANY(:jobs::uuid[])))
    ORDER BY lease.id
    FOR KEY SHARE
)

UPDATE holdfast.active AS job SET
    state = 'running',
    attempt = job.attempt + (job.state = 'claimed')::integer,
    started_at = CASE
        WHEN job.state <> 'claimed' THEN job.started_at
        WHEN -- include has_begun(job)
        THEN job.claimed_at
        ELSE (SELECT clock_timestamp())
    END,
    last_moved_at = CASE
        WHEN job.state <> 'claimed' OR -- include has_begun(job)
        THEN job.last_moved_at
    END
WHERE -- include token(job, id, width_bucket(job.claim_number, :numbers::bigint[]))
    AND (job.lease = ANY(ARRAY(SELECT alive.id FROM alive))) IS TRUE -- IS TRUE keeps the planner off the index of leases
RETURNING job.id, job.claim_id, job.claim_number;
