-- Add late findings, which can no longer move the job, to the attempt of exactly that token; an error recorded there stays.
UPDATE holdfast_attempts AS attempts SET
    late_result = iif(
        substr(:items, 72 * note.key + 52, 11) + 0 > 0,
        substr(:data, substr(:items, 72 * note.key + 52, 11), substr(:items, 72 * note.key + 63, 10)),
        late_result
    ),
    error = coalesce(error, json_extract(note.value, '$.error')),
    stacks = coalesce(json_extract(note.value, '$.stacks'), stacks),
    late_at = iif(json_extract(note.value, '$.is_late'), coalesce(late_at, :wall), late_at)
FROM json_each(:notes) AS note
WHERE attempts.job = substr(:items, 72 * note.key + 1, 16)
    AND attempts.claim_id = substr(:items, 72 * note.key + 17, 16)
    AND attempts.claim_number = substr(:items, 72 * note.key + 33, 19) + 0;
