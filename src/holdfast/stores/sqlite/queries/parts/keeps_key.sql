-- keeps_key(job): no later job has taken its unique key, and its end has not freed it. These are the words of the index of the keys.
job.unique_key IS NOT NULL
AND (
    job.state IN ('available', 'blocked', 'held', 'claimed', 'running')
    OR (job.state = 'completed' AND json_extract(job.extra, '$.unique.seconds') IS NOT NULL)
)
AND json_extract(job.extra, '$.unique.is_freed') IS NULL
