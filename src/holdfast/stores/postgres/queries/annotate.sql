-- Add late findings, which can no longer move the job, to the attempt of exactly that token; an error recorded there stays. Return the
-- jobs of attempts that another session has locked: they do not delay the others, and are asked for again.
-- :jobs, :claims, :numbers (ascending, each once), found as exchange.sql describes;
-- :late_results, :errors, :stacks of each, NULL where there is nothing new.
WITH ours AS MATERIALIZED (
    SELECT attempt.claim_number
    FROM holdfast.attempts AS attempt
    WHERE -- include token(attempt, job, width_bucket(attempt.claim_number, :numbers::bigint[]))
        AND attempt.outcome IS NOT NULL
),

free AS MATERIALIZED (
    SELECT attempt.claim_number
    FROM holdfast.attempts AS attempt
    WHERE attempt.job = ANY(:jobs::uuid[]) AND attempt.claim_number = ANY(ARRAY(SELECT ours.claim_number FROM ours))
    FOR NO KEY UPDATE SKIP LOCKED
),

written AS (
    UPDATE holdfast.attempts AS attempt SET
        late_result = coalesce((:late_results::bytea[])[width_bucket(attempt.claim_number, :numbers::bigint[])], attempt.late_result),
        error = coalesce(attempt.error, (:errors::text[])[width_bucket(attempt.claim_number, :numbers::bigint[])]),
        stacks = coalesce((:stacks::text[])[width_bucket(attempt.claim_number, :numbers::bigint[])], attempt.stacks),
        late_at = coalesce(attempt.late_at, CASE
            WHEN num_nonnulls(
                (:late_results::bytea[])[width_bucket(attempt.claim_number, :numbers::bigint[])],
                (:errors::text[])[width_bucket(attempt.claim_number, :numbers::bigint[])]
            ) > 0 THEN clock_timestamp()
        END)
    WHERE attempt.job = ANY(:jobs::uuid[]) AND attempt.claim_number = ANY(ARRAY(SELECT free.claim_number FROM free))
    RETURNING attempt.claim_number
)

SELECT (:jobs::uuid[])[width_bucket(ours.claim_number, :numbers::bigint[])] AS id
FROM ours WHERE ours.claim_number <> ALL(ARRAY(SELECT written.claim_number FROM written));
