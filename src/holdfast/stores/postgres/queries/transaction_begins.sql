-- Whether the job is active under its token ($1 job, $2 claim, $3 number), and with it what holds until this transaction ends:
-- for how many milliseconds it may be idle ($4), how durable it is, and by what its own end is told from another's ($5).
SELECT
    EXISTS (SELECT FROM holdfast.active WHERE id = $1 AND claim_id = $2 AND claim_number = $3) AS is_ours,
    set_config('idle_in_transaction_session_timeout', $4, true),
    set_config('holdfast_job.transaction', $5, true),
    set_config('synchronous_commit', CASE
        WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN 'on'
        ELSE current_setting('synchronous_commit')
    END, true);
