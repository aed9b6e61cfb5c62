-- Let jobs that wait for their children end cancelled once these have ended.
UPDATE holdfast_jobs SET cancel_requested = 1
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
