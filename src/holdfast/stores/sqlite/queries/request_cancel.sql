-- Cancel waiting jobs, flag active ones, leave finished ones. A job whose rescue hook is due is kept for at least HOOK_RETENTION.
UPDATE holdfast_jobs SET
    -- include cancelled(:wall)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND state NOT IN ('completed', 'failed', 'cancelled');
