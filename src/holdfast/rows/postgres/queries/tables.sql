-- Tables as they are named: with their schema where they are not found without one, or where one was given ($1). First those of the
-- same name ($2) and of that schema.
SELECT CASE WHEN $1::text IS NULL AND pg_table_is_visible(pg_class.oid) THEN relname ELSE nspname || '.' || relname END AS name
FROM pg_class JOIN pg_namespace AS schema_ ON schema_.oid = relnamespace
WHERE relkind IN ('r', 'p') AND NOT relispartition
AND nspname NOT IN ('pg_catalog', 'information_schema') AND nspname !~ '^pg_(toast|temp)'
ORDER BY relname <> $2, nspname IS DISTINCT FROM $1, NOT pg_table_is_visible(pg_class.oid), relname;
