-- Return whether the job, in any of its three tables, has this token and this rescue hook is due.
-- It also sets what holds until this transaction ends: see transaction_begins.sql.
-- :job, :claim, :number; :idle in milliseconds; :mark; :hook_due_at, since when the hook is due.
SELECT
    EXISTS (
        SELECT FROM holdfast.active
        WHERE id = :job AND claim_id IS NOT DISTINCT FROM :claim AND claim_number = :number AND hook_due_at = :hook_due_at
        UNION ALL
        SELECT FROM holdfast.pending
        WHERE id = :job AND :claim::uuid IS NULL AND claim_number = :number AND hook_due_at = :hook_due_at
        UNION ALL
        SELECT FROM holdfast.finished
        WHERE id = :job AND claim_id IS NOT DISTINCT FROM :claim AND claim_number = :number AND hook_due_at = :hook_due_at
    ) AS is_ours,
    set_config('idle_in_transaction_session_timeout', :idle, true),
    set_config('holdfast_job.transaction', :mark, true),
    set_config('synchronous_commit', CASE
        WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN 'on'
        ELSE current_setting('synchronous_commit')
    END, true);
