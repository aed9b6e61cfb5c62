-- Names of tables in a schema ($1), or that are found without one.
SELECT relname AS name FROM pg_class JOIN pg_namespace AS schema_ ON schema_.oid = relnamespace
WHERE relkind IN ('r', 'p') AND NOT relispartition
AND nspname NOT IN ('pg_catalog', 'information_schema')
AND CASE WHEN $1::text IS NULL THEN pg_table_is_visible(pg_class.oid) ELSE nspname = $1 END
ORDER BY 1;
