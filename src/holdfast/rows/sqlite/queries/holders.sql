-- The owners of rows, how many each has and since when; at most :limit of them, the oldest first.
SELECT coalesce({whose}, ''), count(*), coalesce(max({held}), 0.0)
FROM {table} WHERE {status} = {in_progress}
GROUP BY 1 ORDER BY 3 DESC, min({since}), 1 LIMIT :limit;
