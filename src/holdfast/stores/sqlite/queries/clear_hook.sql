-- Clear a rescue hook that has run, in the transaction of its rows, unless another transaction has cleared it before.
UPDATE holdfast_jobs SET
    hook_due_at = NULL,
    delete_after = finished_at + CAST(
        1e6 * coalesce(iif(json_valid(policy), coalesce(
            iif(state = 'failed', json_extract(policy, '$.retention_failed'), NULL), json_extract(policy, '$.retention')
        ), NULL), 604800) AS INTEGER
    )
WHERE id = :job AND claim_id IS :claim_id AND claim_number = :claim_number AND hook_due_at = :hook_due_at;
