-- Block members of a workflow, which wait for their parents now.
UPDATE holdfast_jobs SET state = 'blocked', flow = :flow
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
