-- Write progress and checkpoints of active jobs under their tokens; NULL leaves a field as it is.
-- An update that arrives after a newer one changes nothing.
UPDATE holdfast_jobs AS jobs SET
    stage = coalesce(json_extract(news.value, '$.stage'), stage),
    fraction = coalesce(json_extract(news.value, '$.fraction'), fraction),
    message = coalesce(json_extract(news.value, '$.message'), message),
    checkpoint = iif(
        substr(:items, 72 * news.key + 52, 11) + 0 > 0,
        substr(:data, substr(:items, 72 * news.key + 52, 11), substr(:items, 72 * news.key + 63, 10)),
        checkpoint
    ),
    points = coalesce(json_extract(news.value, '$.points'), points),
    report_order = coalesce(json_extract(news.value, '$.order'), report_order),
    progress_at = :wall,
    last_moved_at = :monotonic
FROM json_each(:updates) AS news
WHERE jobs.id = substr(:items, 72 * news.key + 1, 16)
    AND jobs.claim_id = substr(:items, 72 * news.key + 17, 16)
    AND jobs.claim_number = substr(:items, 72 * news.key + 33, 19) + 0
    AND jobs.state IN ('claimed', 'running')
    AND coalesce(json_extract(news.value, '$.order'), jobs.report_order) >= jobs.report_order;
