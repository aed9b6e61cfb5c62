-- Cancel waiting jobs, flag active ones, leave finished ones. A job whose rescue hook is due is kept for at least HOOK_RETENTION.
-- Without :with_members, jobs of workflows are left: a running job may become one at any time.
UPDATE holdfast_jobs SET
    -- include cancelled(:wall)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND state NOT IN ('completed', 'failed', 'cancelled') AND (:with_members OR flow IS NULL);
