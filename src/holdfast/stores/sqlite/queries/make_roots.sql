-- Make plain jobs the roots of separate flows.
UPDATE holdfast_jobs SET flow = id
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND flow IS NULL;
