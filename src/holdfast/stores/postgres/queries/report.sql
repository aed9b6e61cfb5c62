-- Progress and checkpoints of active jobs under their tokens; NULL leaves a field as it is. Answers those that are active so.
-- $1–$3: jobs, claims, numbers (ascending, each once); for how they are found see exchange.sql.
UPDATE holdfast.active AS job SET
    stage = coalesce(($4::text[])[width_bucket(job.number, $3::bigint[])], job.stage),
    fraction = coalesce(($5::double precision[])[width_bucket(job.number, $3::bigint[])], job.fraction),
    message = coalesce(($6::text[])[width_bucket(job.number, $3::bigint[])], job.message),
    checkpoint = coalesce(($7::bytea[])[width_bucket(job.number, $3::bigint[])], job.checkpoint),
    progress_at = (SELECT clock_timestamp()),
    moved_at = (SELECT clock_timestamp())
WHERE job.id = ANY($1::uuid[]) AND job.number = ($3::bigint[])[width_bucket(job.number, $3::bigint[])]
    AND job.id = ($1::uuid[])[width_bucket(job.number, $3::bigint[])]
    AND job.claim = ($2::uuid[])[width_bucket(job.number, $3::bigint[])]
RETURNING job.id, job.claim, job.number;
