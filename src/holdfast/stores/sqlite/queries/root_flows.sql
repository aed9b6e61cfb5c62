-- Insert the flows of plain jobs, whose roots they become.
INSERT INTO holdfast_flows (id)
SELECT id FROM holdfast_jobs
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND flow IS NULL;
