-- Return the matching jobs that wait, newest first. It reads no other jobs, as list.sql would; it reads all of those.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE id IN (
        SELECT waiting.id FROM holdfast_jobs AS waiting WHERE waiting.state = 'available'
        UNION ALL SELECT blocked.id FROM holdfast_jobs AS blocked WHERE blocked.state = 'blocked'
    ) AND (:before IS NULL OR id < :before) AND (:down_to IS NULL OR id >= :down_to)
        AND -- include matching()
    ORDER BY id DESC
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
