-- Progress and checkpoints of active jobs under their tokens; NULL leaves a field as it is.
UPDATE holdfast_jobs AS jobs SET
    stage = coalesce(json_extract(said.value, '$.stage'), stage),
    fraction = coalesce(json_extract(said.value, '$.fraction'), fraction),
    message = coalesce(json_extract(said.value, '$.message'), message),
    checkpoint = iif(
        substr(:items, 72 * said.key + 52, 11) + 0 > 0,
        substr(:data, substr(:items, 72 * said.key + 52, 11), substr(:items, 72 * said.key + 63, 10)),
        checkpoint
    ),
    progress_at = :wall,
    progress_mono = :monotonic
FROM json_each(:said) AS said
WHERE jobs.id = substr(:items, 72 * said.key + 1, 16)
    AND jobs.claim = substr(:items, 72 * said.key + 17, 16)
    AND jobs.number = substr(:items, 72 * said.key + 33, 19) + 0
    AND jobs.state IN ('claimed', 'running');
