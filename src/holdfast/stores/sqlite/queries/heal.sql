-- The hook has run: in the transaction of its own rows, and only if nobody else has done it, its mark is taken away.
UPDATE holdfast_jobs SET
    hook_due_at = NULL,
    forget_at = finished_at + CAST(
        1e6 * coalesce(iif(json_valid(policy), json_extract(policy, '$.retention'), NULL), 604800) AS INTEGER
    )
WHERE id = :job AND claim IS :claim AND number = :number AND hook_due_at = :hook_due_at;
