-- The times, on the clock of its lease, until which only the owner judges a running job: each limit of its task, plus ttl and grace.
CREATE TEMP VIEW holdfast_deadlines (job, timing, boot, clock, stalled_from, timed_out_from) AS
SELECT
    jobs.id, leases.timing, leases.boot, leases.clock,
    coalesce(jobs.last_moved_at, jobs.started_mono) + 1e6 * json_extract(jobs.policy, '$.progress_within') + leases.ttl + leases.grace,
    jobs.started_mono + 1e6 * json_extract(jobs.policy, '$.timeout') + leases.ttl + leases.grace
FROM holdfast_leases AS leases
JOIN holdfast_jobs AS jobs ON jobs.lease = leases.id
WHERE jobs.state IN ('claimed', 'running') AND jobs.state = 'running' AND leases.ended_at IS NULL AND leases.boot <> '' AND json_valid(jobs.policy);

-- call
SELECT 1;
