-- Return whether the job is active under its token, and set what holds until this transaction ends.
-- :job, :claim, :number; :idle, for how many milliseconds it may be; :mark, what distinguishes it from another transaction.
SELECT
    EXISTS (SELECT FROM holdfast.active WHERE id = :job AND claim_id = :claim AND claim_number = :number) AS is_ours,
    set_config('idle_in_transaction_session_timeout', :idle, true),
    set_config('holdfast_job.transaction', :mark, true),
    set_config('synchronous_commit', CASE
        WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN 'on'
        ELSE current_setting('synchronous_commit')
    END, true);
