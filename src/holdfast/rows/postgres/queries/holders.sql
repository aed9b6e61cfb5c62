-- The owners of rows, how many each has and since when; at most $1 of them, the oldest first.
SELECT
    coalesce({whose}, '') AS whose,
    count(*) AS number,
    coalesce(extract(epoch FROM {now} - min({claimed_at}) FILTER (WHERE isfinite({claimed_at}))), 0)::float8 AS oldest
FROM {table} WHERE {status} = {in_progress}
GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT $1;
