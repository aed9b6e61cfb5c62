-- What was learnt too late to move the job, on the record of exactly that token; the record's own error stays.
UPDATE holdfast.attempts AS attempts SET
    late_result = coalesce(note.late_result, attempts.late_result),
    error = coalesce(attempts.error, note.error),
    stacks = coalesce(note.stacks, attempts.stacks)
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bytea[], $5::text[], $6::text[])
    AS note (job, claim, number, late_result, error, stacks)
WHERE attempts.job = note.job AND attempts.claim = note.claim AND attempts.number = note.number AND attempts.outcome IS NOT NULL;
