-- Return the statements that give the schema, and then the objects in it, to one owner; none for what the owner has already.
-- :schema, :owner.
SELECT format('ALTER SCHEMA %I OWNER TO %I', :schema::text, :owner::text) AS statement, 1 AS place FROM pg_namespace
WHERE nspname = :schema::text AND nspowner <> (SELECT oid FROM pg_roles WHERE rolname = :owner::text)
UNION ALL
SELECT format('ALTER %s %I.%I OWNER TO %I', kind, :schema::text, name, :owner::text), 2 FROM (
    SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind, relname AS name, relowner AS owner
    FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = :schema::text) AND relkind IN ('r', 'p', 'v', 'S')
    UNION ALL
    SELECT 'FUNCTION', proname, proowner FROM pg_proc
    WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = :schema::text)
) AS belongings
WHERE owner <> (SELECT oid FROM pg_roles WHERE rolname = :owner::text)
ORDER BY place
