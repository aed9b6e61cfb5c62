-- Return whether any job of these tasks waits: due or not, in a queue that is paused or wanted or not.
-- :tasks.
SELECT EXISTS (
    SELECT FROM unnest(:tasks::text[]) AS known (task)
    CROSS JOIN LATERAL (
        SELECT FROM holdfast.pending WHERE state = 'available' AND task = known.task ORDER BY priority, queue, key LIMIT 1
    ) AS first
)
