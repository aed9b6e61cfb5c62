-- Return the unfinished job that has a unique key.
SELECT id FROM holdfast_jobs
WHERE task = :task AND unique_key = :unique_key AND state IN ('available', 'blocked', 'held', 'claimed', 'running');
