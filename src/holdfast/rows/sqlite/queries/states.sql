-- How many rows have which status.
SELECT coalesce(CAST({status} AS TEXT), 'NULL'), count(*) FROM {table} GROUP BY 1 ORDER BY 1;
