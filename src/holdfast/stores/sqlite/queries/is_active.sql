-- Whether this job is active under this token.
SELECT 1 FROM holdfast_jobs
WHERE id = :job AND claim = :claim AND number = :number AND state IN ('claimed', 'running');
