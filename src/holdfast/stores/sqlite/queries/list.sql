-- Return the matching jobs, newest first: ids sort by creation.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE (:before IS NULL OR id < :before) AND (:down_to IS NULL OR id >= :down_to)
        AND -- include matching()
    ORDER BY id DESC
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
