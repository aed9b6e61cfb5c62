-- Record a step of a job whose move this transaction writes, too.
INSERT INTO holdfast_steps (job, name, nth, place, is_sequential, result)
VALUES (:job, :step, :nth, :place, :is_sequential, :result)
ON CONFLICT (job, name, nth) DO NOTHING;
