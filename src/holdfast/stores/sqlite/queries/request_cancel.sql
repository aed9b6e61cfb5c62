-- Cancel waiting jobs, flag active ones, leave finished ones. A job whose rescue hook is due is kept for at least HOOK_RETENTION.
UPDATE holdfast_jobs SET
    cancel_requested = state IN ('claimed', 'running'),
    reason = iif(state IN ('claimed', 'running'), reason, 'BY_OPERATOR'),
    finished_at = iif(state IN ('claimed', 'running'), NULL, :wall),
    delete_after = iif(state IN ('claimed', 'running'), NULL, :wall + CAST(1e6 * max(
        coalesce(iif(json_valid(policy), json_extract(policy, '$.retention'), NULL), 604800),
        iif(hook_due_at IS NULL, 0, 604800)
    ) AS INTEGER)),
    state = iif(state IN ('claimed', 'running'), state, 'cancelled')
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND state NOT IN ('completed', 'failed', 'cancelled');
