-- Whether a hook of these tasks is owed and due: asked first, because nearly always there is none, and a write takes the lock.
SELECT 1
FROM json_each(:tasks) AS known
CROSS JOIN holdfast_jobs AS job ON job.task = known.value
WHERE job.hook_due_at IS NOT NULL AND job.hook_due_at <= :wall AND job.state IN ('held', 'completed', 'failed', 'cancelled')
LIMIT 1;
