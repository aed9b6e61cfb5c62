-- Return whether the job is active under its token until this transaction ends, which it does next; and what distinguishes this
-- transaction from another one.
-- :job, :claim, :number.
-- The lock blocks rescues and settles, but not reports.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM holdfast.active WHERE id = :job AND claim_id = :claim AND claim_number = :number FOR KEY SHARE
    ) AS owned) = 1 AS is_ours,
    current_setting('holdfast_job.transaction', true) AS mark;
