-- The hook has run: if the job, wherever it is, still has this token ($1 job, $2 claim, $3 number) and this mark ($4), the mark
-- is taken away with this transaction, which ends next; and what tells it from another transaction.
WITH active AS (
    UPDATE holdfast.active SET hook_due_at = NULL
    WHERE id = $1 AND claim IS NOT DISTINCT FROM $2 AND number = $3 AND hook_due_at = $4
    RETURNING id
),
pending AS (
    UPDATE holdfast.pending SET hook_due_at = NULL
    WHERE id = $1 AND $2::uuid IS NULL AND number = $3 AND hook_due_at = $4
    RETURNING id
),
finished AS (
    UPDATE holdfast.finished SET hook_due_at = NULL
    WHERE id = $1 AND claim IS NOT DISTINCT FROM $2 AND number = $3 AND hook_due_at = $4
    RETURNING id
)
SELECT
    (SELECT count(*) FROM (SELECT FROM active UNION ALL SELECT FROM pending UNION ALL SELECT FROM finished) AS healed) = 1 AS is_ours,
    current_setting('holdfast_job.transaction', true) AS mark;
