-- Release members, which are due from now on.
UPDATE holdfast_jobs SET state = 'available', available_at = max(:wall, available_at)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
