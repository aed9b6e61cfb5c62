-- A job may hold its unique key for a period, although it has completed; see uniqueness.py. Its terms are in its extra.
DROP INDEX main.holdfast_unique_keys;
CREATE UNIQUE INDEX main.holdfast_unique_keys ON holdfast_jobs (task, unique_key)
WHERE unique_key IS NOT NULL
    AND (
        state IN ('available', 'blocked', 'held', 'claimed', 'running')
        OR (state = 'completed' AND json_extract(extra, '$.unique.seconds') IS NOT NULL)
    )
    AND json_extract(extra, '$.unique.is_freed') IS NULL;
