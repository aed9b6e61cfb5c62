-- The state each of these jobs is in now; none is scheduled: a reopened one is due, a cancelled one has ended.
SELECT id, state
FROM jobs
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
