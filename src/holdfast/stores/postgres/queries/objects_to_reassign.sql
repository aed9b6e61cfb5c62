-- Statements that give the schema, and then what is in it, to one owner; nothing of what is the owner's already.
-- $1 schema, $2 owner
SELECT format('ALTER SCHEMA %I OWNER TO %I', $1::text, $2::text) AS statement, 1 AS place FROM pg_namespace
WHERE nspname = $1::text AND nspowner <> (SELECT oid FROM pg_roles WHERE rolname = $2::text)
UNION ALL
SELECT format('ALTER %s %I.%I OWNER TO %I', kind, $1::text, name, $2::text), 2 FROM (
    SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind, relname AS name, relowner AS owner
    FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text) AND relkind IN ('r', 'p', 'v', 'S')
    UNION ALL
    SELECT 'FUNCTION', proname, proowner FROM pg_proc
    WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text)
) AS belongings
WHERE owner <> (SELECT oid FROM pg_roles WHERE rolname = $2::text)
ORDER BY place
