-- Record steps of a job whose move this transaction writes, too.
-- :job; :names, :nths, :places, :are_sequential, :results of the steps.
INSERT INTO holdfast.steps (job, name, nth, place, is_sequential, result)
SELECT :job, step.*
FROM unnest(:names::text[], :nths::integer[], :places::integer[], :are_sequential::boolean[], :results::bytea[]) AS step
ON CONFLICT DO NOTHING;
