-- What distinguishes this transaction from another, and how many of its moves no savepoint has reverted.
SELECT
    true AS is_ours,
    current_setting('holdfast_rows.transaction', true) AS mark,
    current_setting('holdfast_rows.moves', true) AS moves;
