-- Return the matching jobs that a worker has, newest first. It reads no other jobs, as list.sql would.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE state IN ('claimed', 'running') AND (:before IS NULL OR id < :before) AND (:down_to IS NULL OR id >= :down_to)
        AND -- include matching()
    ORDER BY +id DESC -- not from the index of ids: it would read all jobs
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
