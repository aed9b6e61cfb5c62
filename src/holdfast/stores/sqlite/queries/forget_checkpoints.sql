-- Delete the checkpoints of these jobs, which start over, except of those that a requested cancellation has ended.
UPDATE holdfast_jobs SET checkpoint = NULL
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND state <> 'cancelled';
