-- reach(range): the last job of a range that a claim takes, or, below zero, how many are due.
coalesce((
    SELECT job.rowid FROM holdfast_jobs AS job
    WHERE job.state = 'available' AND job.task = range.task AND job.queue = range.queue
        AND job.priority = range.priority AND job.available_at <= NEW.wall
        AND -- include claimable(job, NEW.normal, NEW.isolated, NEW.wall)
    ORDER BY job.available_at, job.id LIMIT 1 OFFSET NEW.room - 1
), (
    SELECT -count(*) FROM holdfast_jobs AS job
    WHERE job.state = 'available' AND job.task = range.task AND job.queue = range.queue
        AND job.priority = range.priority AND job.available_at <= NEW.wall
        AND -- include claimable(job, NEW.normal, NEW.isolated, NEW.wall)
))
