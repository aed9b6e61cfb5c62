-- Return running jobs far past a limit of their task, longest first; only those whose lease is on this process's clock.
SELECT
    jobs.id, jobs.claim_id, jobs.claim_number, jobs.lease, jobs.task, jobs.state, jobs.attempt, jobs.failures, jobs.crashes,
    jobs.policy, jobs.cancel_requested, jobs.queue, jobs.flow, iif(jobs.points IS NULL, NULL, jobs.fraction),
    coalesce(jobs.worker, ''), iif(late.of_timeout >= late.of_progress, 'timed_out', 'stalled'),
    late.timing
FROM (
    SELECT
        job, timing,
        coalesce(:monotonic - timed_out_from, 0) AS of_timeout,
        coalesce(:monotonic - stalled_from, 0) AS of_progress
    FROM holdfast_deadlines
    WHERE boot = :boot AND clock = :clock AND (timed_out_from < :monotonic OR stalled_from < :monotonic)
) AS late
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = late.job
ORDER BY max(late.of_timeout, late.of_progress) DESC, jobs.claim_number
LIMIT :limit;
