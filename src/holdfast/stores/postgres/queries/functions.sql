-- Return the functions of the schema, and whether this user may call each.
-- :schema.
SELECT proname::text AS name, has_function_privilege(oid, 'EXECUTE') AS is_ours
FROM pg_proc
WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = :schema)
ORDER BY proname
