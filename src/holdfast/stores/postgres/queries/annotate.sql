-- What was learnt too late to move the job, on the record of exactly that token; the record's own error stays. Answers the jobs
-- of records that another session has locked: they delay no other, and are asked for again.
-- $1–$3: jobs, claims, numbers (ascending, each once); for how they are found see exchange.sql.
WITH ours AS MATERIALIZED (
    SELECT attempt.claim_number
    FROM holdfast.attempts AS attempt
    WHERE -- include token(attempt, job, width_bucket(attempt.claim_number, $3::bigint[]))
        AND attempt.outcome IS NOT NULL
),

free AS MATERIALIZED (
    SELECT attempt.claim_number
    FROM holdfast.attempts AS attempt
    WHERE attempt.job = ANY($1::uuid[]) AND attempt.claim_number = ANY(ARRAY(SELECT ours.claim_number FROM ours))
    FOR NO KEY UPDATE SKIP LOCKED
),

written AS (
    UPDATE holdfast.attempts AS attempt SET
        late_result = coalesce(($4::bytea[])[width_bucket(attempt.claim_number, $3::bigint[])], attempt.late_result),
        error = coalesce(attempt.error, ($5::text[])[width_bucket(attempt.claim_number, $3::bigint[])]),
        stacks = coalesce(($6::text[])[width_bucket(attempt.claim_number, $3::bigint[])], attempt.stacks)
    WHERE attempt.job = ANY($1::uuid[]) AND attempt.claim_number = ANY(ARRAY(SELECT free.claim_number FROM free))
    RETURNING attempt.claim_number
)

SELECT ($1::uuid[])[width_bucket(ours.claim_number, $3::bigint[])] AS id
FROM ours WHERE ours.claim_number <> ALL(ARRAY(SELECT written.claim_number FROM written));
