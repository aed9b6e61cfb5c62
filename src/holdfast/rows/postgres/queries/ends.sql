-- What tells this transaction from another.
SELECT true AS is_ours, current_setting('holdfast_rows.transaction', true) AS mark;
