-- last_due(number): the last of the first due jobs of a range, of that number; NULL if fewer are due.
SELECT job.rowid FROM holdfast_jobs AS job
WHERE job.state = 'available' AND job.task = ranges.task AND job.priority = ranges.priority
    AND job.queue = ranges.queue AND job.key = ranges.key AND job.available_at <= NEW.wall
    AND -- include claimable(job, NEW.normal, NEW.isolated, NEW.wall)
ORDER BY job.available_at, job.id LIMIT 1 OFFSET number - 1
