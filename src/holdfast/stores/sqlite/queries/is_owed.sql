-- Whether this job has this token and this mark of a hook that is owed.
SELECT 1 FROM holdfast_jobs
WHERE id = :job AND claim IS :claim AND number = :number AND hook_due_at = :hook_due_at;
