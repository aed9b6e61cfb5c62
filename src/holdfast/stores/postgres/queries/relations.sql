-- Return each relation of the schema with its kind and parent, and the rights of this user. For a table: whether its rows have a replica
-- identity, and which publications need one. For an index: whether it is valid, and whether its order depends on the C library.
-- :schema.
SELECT
    relations.relname::text AS name,
    relations.relkind::text AS kind,
    (
        SELECT parents.relname::text FROM pg_inherits JOIN pg_class AS parents ON parents.oid = inhparent
        WHERE inhrelid = relations.oid
    ) AS parent,
    relations.relreplident = 'f' OR CASE
        WHEN relations.relkind = 'r' THEN pg_get_replica_identity_index(relations.oid) IS NOT NULL
    END AS has_identity,
    ARRAY(
        SELECT pubname::text FROM pg_publication_tables JOIN pg_publication USING (pubname)
        WHERE schemaname = :schema AND tablename = relations.relname AND (pubupdate OR pubdelete)
        ORDER BY pubname
    ) AS publications,
    indexes.indisvalid AS is_valid,
    EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = indexes.indexrelid AND attcollation NOT IN (0, 'pg_catalog."C"'::regcollation)
    ) AS is_collated,
    ARRAY(
        SELECT privilege
        FROM unnest(CASE WHEN relations.relkind = 'S' THEN '{USAGE}' ELSE '{SELECT,INSERT,UPDATE,DELETE}'::text[] END) AS privilege
        WHERE CASE
            WHEN relations.relkind = 'S' THEN has_sequence_privilege(relations.oid, privilege)
            ELSE has_table_privilege(relations.oid, privilege)
        END
    ) AS rights
FROM pg_class AS relations
LEFT JOIN pg_index AS indexes ON indexes.indexrelid = relations.oid
WHERE relations.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = :schema)
ORDER BY relations.relname
