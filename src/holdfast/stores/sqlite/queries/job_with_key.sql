-- Return the unfinished job of a task that has this unique key.
SELECT id FROM holdfast_jobs
WHERE task = :task AND unique_key = :unique_key AND state IN ('available', 'blocked', 'held', 'claimed', 'running');
