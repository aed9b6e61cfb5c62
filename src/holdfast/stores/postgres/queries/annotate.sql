-- What was learnt too late to move the job, on the record of exactly that token; the record's own error stays.
-- $1–$3: jobs, claims, numbers (ascending, each once); for how they are found see exchange.sql.
UPDATE holdfast.attempts AS attempt SET
    late_result = coalesce(($4::bytea[])[width_bucket(attempt.number, $3::bigint[])], attempt.late_result),
    error = coalesce(attempt.error, ($5::text[])[width_bucket(attempt.number, $3::bigint[])]),
    stacks = coalesce(($6::text[])[width_bucket(attempt.number, $3::bigint[])], attempt.stacks)
WHERE attempt.job = ANY($1::uuid[]) AND attempt.number = ($3::bigint[])[width_bucket(attempt.number, $3::bigint[])]
    AND attempt.job = ($1::uuid[])[width_bucket(attempt.number, $3::bigint[])]
    AND attempt.claim = ($2::uuid[])[width_bucket(attempt.number, $3::bigint[])]
    AND attempt.outcome IS NOT NULL;
