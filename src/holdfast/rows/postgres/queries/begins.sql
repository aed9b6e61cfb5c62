-- What holds until this transaction ends: for how many milliseconds it may be idle ($1), and by what its own end is told ($2).
SELECT
    true AS is_ours,
    set_config('idle_in_transaction_session_timeout', $1, true),
    set_config('holdfast_rows.transaction', $2, true);
