-- Return the unfinished job of a task that has this unique key.
-- :task, :key.
SELECT keys.job FROM holdfast.unique_keys AS keys
WHERE keys.task = :task AND keys.key = :key AND (
    EXISTS (
        SELECT FROM holdfast.pending AS waiting
        WHERE waiting.id = keys.job AND (NOT keys.until_started OR waiting.claim_number = 0 OR keys.until > clock_timestamp())
    )
    OR EXISTS (
        SELECT FROM holdfast.active AS running
        WHERE running.id = keys.job AND (NOT keys.until_started OR keys.until > clock_timestamp())
    )
)
