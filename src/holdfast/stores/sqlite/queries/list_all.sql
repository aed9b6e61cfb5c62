-- Return the jobs of a range of ids, newest first. It judges no conditions, as list.sql would for each job that is left out.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE id < coalesce(:before, x'ffffffffffffffffffffffffffffffffff') AND id >= coalesce(:down_to, x'00')
    ORDER BY id DESC
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
