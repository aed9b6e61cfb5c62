-- Delete the steps of these jobs, which start over, except of those that a requested cancellation has ended.
DELETE FROM holdfast_steps WHERE job IN (
    SELECT id FROM holdfast_jobs
    WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND state <> 'cancelled'
);
