-- How many rows have which status.
SELECT {status}::text AS status, count(*) AS number FROM {table} GROUP BY 1 ORDER BY 1;
