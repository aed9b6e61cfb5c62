-- Settings until this transaction ends: for how many milliseconds it may be idle ($1), and the value that identifies its end ($2).
-- Plans are made for the keys asked for: a plan for any keys compares each row with all of them. Also how many moves it has made.
SELECT
    true AS is_ours,
    set_config('idle_in_transaction_session_timeout', $1, true),
    set_config('holdfast_rows.transaction', $2, true),
    set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('holdfast_rows.moves', '0', true);
