-- Return the matching failed or cancelled jobs: of one of these states, newest first. It reads no other jobs, as list.sql would.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE state IN ('failed', 'cancelled') AND state = json_extract(:state, '$[0]') AND id < coalesce(:before, x'ffffffffffffffffffffffffffffffffff') AND id >= coalesce(:down_to, x'00')
        AND -- include matching()
    ORDER BY id DESC
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
