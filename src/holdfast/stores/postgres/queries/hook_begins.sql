-- Whether the job, in any of its three tables, has this token ($1 job, $2 claim, $3 number) and this hook is due ($6).
-- With it what holds until this transaction ends: see transaction_begins.sql.
SELECT
    EXISTS (
        SELECT FROM holdfast.active WHERE id = $1 AND claim_id IS NOT DISTINCT FROM $2 AND claim_number = $3 AND hook_due_at = $6
        UNION ALL
        SELECT FROM holdfast.pending WHERE id = $1 AND $2::uuid IS NULL AND claim_number = $3 AND hook_due_at = $6
        UNION ALL
        SELECT FROM holdfast.finished WHERE id = $1 AND claim_id IS NOT DISTINCT FROM $2 AND claim_number = $3 AND hook_due_at = $6
    ) AS is_ours,
    set_config('idle_in_transaction_session_timeout', $4, true),
    set_config('holdfast_job.transaction', $5, true),
    set_config('synchronous_commit', CASE
        WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN 'on'
        ELSE current_setting('synchronous_commit')
    END, true);
