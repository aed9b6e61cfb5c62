-- Whether the job is active under its token ($1 job, $2 claim, $3 number) until this transaction ends, which is the next thing
-- it does; and what tells it from another transaction. The lock keeps rescues and settles out, and lets reports through.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM holdfast.active WHERE id = $1 AND claim_id = $2 AND claim_number = $3 FOR KEY SHARE
    ) AS owned) = 1 AS is_ours,
    current_setting('holdfast_job.transaction', true) AS mark;
