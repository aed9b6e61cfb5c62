-- The catalog's facts about a table ($1, its name in SQL): no row if there is none.
SELECT
    table_.oid::bigint AS oid,
    table_.relkind::text AS kind,
    schema_.nspname AS schema,
    current_setting('TimeZone') AS zone,
    quote_ident(current_user) AS reader,
    row_security_active(table_.oid) AS is_filtered,
    CASE WHEN relkind IN ('r', 'p') THEN has_column_privilege(table_.oid, 'ctid', 'SELECT') ELSE false END AS may_find,
    has_table_privilege(table_.oid, 'DELETE') AS may_delete,
    EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = table_.oid AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype::int & 16 <> 0
    ) AS is_touched,
    EXISTS (SELECT FROM pg_inherits WHERE inhparent = table_.oid) AS has_children
FROM pg_class AS table_ JOIN pg_namespace AS schema_ ON schema_.oid = table_.relnamespace
WHERE table_.oid = to_regclass($1);
