-- holds_key(job, wall): no other job with its unique key may be enqueued now.
(
    (
        job.state IN ('available', 'blocked', 'held', 'claimed', 'running')
        AND (job.claim_number = 0 OR json_extract(job.extra, '$.unique.until_started') IS NULL)
    )
    OR job.created_at + CAST(round(json_extract(job.extra, '$.unique.seconds') * 1000000) AS INTEGER) > wall
)
AND -- include keeps_key(job)
