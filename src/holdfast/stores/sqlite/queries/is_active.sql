-- Return a row if this job is active under this token.
SELECT 1 FROM holdfast_jobs
WHERE id = :job AND claim_id = :claim_id AND claim_number = :claim_number AND state IN ('claimed', 'running');
