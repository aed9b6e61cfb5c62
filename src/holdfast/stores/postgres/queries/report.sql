-- Progress and checkpoints of active jobs under their tokens; NULL leaves a field as it is. Answers those that are active so.
UPDATE holdfast.active AS job SET
    stage = coalesce(said.stage, job.stage),
    fraction = coalesce(said.fraction, job.fraction),
    message = coalesce(said.message, job.message),
    checkpoint = coalesce(said.checkpoint, job.checkpoint),
    progress_at = (SELECT clock_timestamp()),
    moved_at = (SELECT clock_timestamp())
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::double precision[], $6::text[], $7::bytea[])
    AS said (job, claim, number, stage, fraction, message, checkpoint)
WHERE job.id = said.job AND job.claim = said.claim AND job.number = said.number
RETURNING job.id, job.claim, job.number;
