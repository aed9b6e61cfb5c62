-- Return the matching jobs, newest first: ids sort by creation.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE id < coalesce(:before, x'ffffffffffffffffffffffffffffffffff') AND id >= coalesce(:down_to, x'00')
        AND -- include matching()
    ORDER BY id DESC
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
