-- End waiting members without running them. A root whose rescue hook is due is kept for at least HOOK_RETENTION.
UPDATE holdfast_jobs SET state = :state, reason = :reason, finished_at = :wall, delete_after = iif(
    id = flow,
    :wall + CAST(1e6 * max(
        coalesce(iif(json_valid(policy), json_extract(policy, '$.retention'), NULL), 604800), iif(hook_due_at IS NULL, 0, 604800)
    ) AS INTEGER),
    NULL
)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
