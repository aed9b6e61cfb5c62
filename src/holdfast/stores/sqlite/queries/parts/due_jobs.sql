-- due_jobs(of, most): how many jobs a claim could take from a lane, counted up to most.
SELECT count(*) FROM (
    SELECT 1 FROM holdfast_jobs AS job
    WHERE job.state = 'available' AND job.task = of.task AND job.priority = of.next_priority
        AND job.queue = of.next_queue AND job.key = of.next_key AND job.available_at <= :wall
        AND -- include claimable(job, :normal, :isolated, :wall)
    LIMIT most
)
