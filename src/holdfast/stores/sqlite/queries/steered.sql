-- Return what an operator's verb changes of each of these jobs.
SELECT id, state, available_at, cancel_requested FROM holdfast_jobs
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
