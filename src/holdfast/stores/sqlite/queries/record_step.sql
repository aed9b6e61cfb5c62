-- Record a step of a job that is active under this token; a record that exists stays as it is.
INSERT INTO holdfast_steps (job, name, nth, place, is_sequential, result)
SELECT id, :step, :nth, :place, :is_sequential, :result FROM holdfast_jobs
WHERE id = :job AND claim_id = :claim_id AND claim_number = :claim_number AND state IN ('claimed', 'running')
ON CONFLICT DO NOTHING;
