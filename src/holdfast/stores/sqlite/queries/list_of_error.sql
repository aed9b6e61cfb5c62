-- Return the matching jobs whose error has the key :error_key, newest first. It reads no other jobs, as list.sql would.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE error_key = :error_key AND id < coalesce(:before, x'ffffffffffffffffffffffffffffffffff') AND id >= coalesce(:down_to, x'00')
        AND -- include matching()
    ORDER BY id DESC
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
