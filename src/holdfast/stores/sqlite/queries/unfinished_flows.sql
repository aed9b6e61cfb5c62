-- Return workflows that have not ended, by id.
SELECT id FROM holdfast_jobs
WHERE flow = id AND state IN ('available', 'blocked', 'held', 'claimed', 'running')
    AND id > coalesce(:after, x'') AND (:flow IS NULL OR id = :flow)
ORDER BY id
LIMIT :limit;
