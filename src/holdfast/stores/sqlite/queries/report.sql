-- Progress and checkpoints of active jobs under their tokens; NULL leaves a field as it is.
-- What arrives after something that was said later changes nothing.
UPDATE holdfast_jobs AS jobs SET
    stage = coalesce(json_extract(news.value, '$.stage'), stage),
    fraction = coalesce(json_extract(news.value, '$.fraction'), fraction),
    message = coalesce(json_extract(news.value, '$.message'), message),
    checkpoint = iif(
        substr(:items, 72 * news.key + 52, 11) + 0 > 0,
        substr(:data, substr(:items, 72 * news.key + 52, 11), substr(:items, 72 * news.key + 63, 10)),
        checkpoint
    ),
    said = coalesce(json_extract(news.value, '$.order'), said),
    progress_at = :wall,
    progress_mono = :monotonic
FROM json_each(:said) AS news
WHERE jobs.id = substr(:items, 72 * news.key + 1, 16)
    AND jobs.claim = substr(:items, 72 * news.key + 17, 16)
    AND jobs.number = substr(:items, 72 * news.key + 33, 19) + 0
    AND jobs.state IN ('claimed', 'running')
    AND coalesce(json_extract(news.value, '$.order'), jobs.said) >= jobs.said;
