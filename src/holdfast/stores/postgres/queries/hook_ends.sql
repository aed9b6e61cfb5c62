-- The hook has run: clear it with this transaction, which ends next, if the job still has this token and this hook is due.
-- $1 job, $2 claim, $3 number, $4 since when it is due. Answers also what distinguishes this transaction from another one.
WITH active AS (
    UPDATE holdfast.active SET hook_due_at = NULL
    WHERE id = $1 AND claim_id IS NOT DISTINCT FROM $2 AND claim_number = $3 AND hook_due_at = $4
    RETURNING id
),
pending AS (
    UPDATE holdfast.pending SET hook_due_at = NULL
    WHERE id = $1 AND $2::uuid IS NULL AND claim_number = $3 AND hook_due_at = $4
    RETURNING id
),
finished AS (
    UPDATE holdfast.finished SET hook_due_at = NULL
    WHERE id = $1 AND claim_id IS NOT DISTINCT FROM $2 AND claim_number = $3 AND hook_due_at = $4
    RETURNING id
)
SELECT
    (SELECT count(*) FROM (SELECT FROM active UNION ALL SELECT FROM pending UNION ALL SELECT FROM finished) AS healed) = 1 AS is_ours,
    current_setting('holdfast_job.transaction', true) AS mark;
