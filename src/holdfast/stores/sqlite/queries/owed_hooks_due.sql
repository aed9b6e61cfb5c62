-- Return whether a rescue hook of these tasks is due. Asked before the write, which takes the lock: nearly always no hook is due.
SELECT 1
FROM json_each(:tasks) AS known
CROSS JOIN holdfast_jobs AS job ON job.task = known.value
WHERE job.hook_due_at IS NOT NULL AND job.hook_due_at <= :wall AND job.state IN ('held', 'completed', 'failed', 'cancelled')
LIMIT 1;
