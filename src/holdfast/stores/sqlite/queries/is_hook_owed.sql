-- Return a row if this job has this token and this rescue hook is due.
SELECT 1 FROM holdfast_jobs
WHERE id = :job AND claim_id IS :claim_id AND claim_number = :claim_number AND hook_due_at = :hook_due_at;
