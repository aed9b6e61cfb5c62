-- Clear a rescue hook that has run, in this transaction, which ends next, if the job still has this token and this hook is due.
-- Return also what distinguishes this transaction from another one.
-- :job, :claim, :number; :hook_due_at, since when the hook is due.
WITH active AS (
    UPDATE holdfast.active SET hook_due_at = NULL
    WHERE id = :job AND claim_id IS NOT DISTINCT FROM :claim AND claim_number = :number AND hook_due_at = :hook_due_at
    RETURNING id
),
pending AS (
    UPDATE holdfast.pending SET hook_due_at = NULL
    WHERE id = :job AND :claim::uuid IS NULL AND claim_number = :number AND hook_due_at = :hook_due_at
    RETURNING id
),
finished AS (
    UPDATE holdfast.finished SET hook_due_at = NULL
    WHERE id = :job AND claim_id IS NOT DISTINCT FROM :claim AND claim_number = :number AND hook_due_at = :hook_due_at
    RETURNING id
)
SELECT
    (SELECT count(*) FROM (SELECT FROM active UNION ALL SELECT FROM pending UNION ALL SELECT FROM finished) AS healed) = 1 AS is_ours,
    current_setting('holdfast_job.transaction', true) AS mark;
