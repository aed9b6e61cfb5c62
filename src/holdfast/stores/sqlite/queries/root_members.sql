-- Insert what plain jobs are in the flows whose roots they become.
INSERT INTO holdfast_members (job, flow, position, node, on_failure, is_gate)
SELECT id, id, 0, task, 'fail', 0 FROM holdfast_jobs
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND flow IS NULL;
