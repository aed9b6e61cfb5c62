-- Statements that give what is in the schema, and the schema, to one owner; nothing of what is the owner's already.
-- $1 schema, $2 owner
SELECT format('ALTER %s %I.%I OWNER TO %I', kind, $1, name, $2) FROM (
    SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind, relname AS name, relowner AS owner
    FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind IN ('r', 'p', 'v', 'S')
    UNION ALL
    SELECT 'FUNCTION', proname, proowner FROM pg_proc
    WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
) AS belongings
WHERE owner <> (SELECT oid FROM pg_roles WHERE rolname = $2)
UNION ALL
SELECT format('ALTER SCHEMA %I OWNER TO %I', $1, $2) FROM pg_namespace
WHERE nspname = $1 AND nspowner <> (SELECT oid FROM pg_roles WHERE rolname = $2)
