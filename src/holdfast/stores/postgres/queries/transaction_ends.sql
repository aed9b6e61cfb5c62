-- Whether the job is active under its token until this transaction ends, which is the next thing it does; and what
-- distinguishes it from another transaction.
-- :job, :claim, :number.
-- The lock keeps rescues and settles out, and lets reports through.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM holdfast.active WHERE id = :job AND claim_id = :claim AND claim_number = :number FOR KEY SHARE
    ) AS owned) = 1 AS is_ours,
    current_setting('holdfast_job.transaction', true) AS mark;
