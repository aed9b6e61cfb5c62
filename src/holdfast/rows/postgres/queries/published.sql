-- Tables that hold the rows of a table ($1: itself, or its partitions) and have no replica identity, with a publication of each that
-- makes the server refuse an UPDATE, or, if Holdfast deletes ($2), a DELETE.
SELECT tables.oid::regclass::text AS name, min(pubname)::text AS publication
FROM (SELECT $1::bigint::oid AS id UNION SELECT relid FROM pg_partition_tree($1::bigint::oid::regclass)) AS parts
JOIN pg_class AS tables ON tables.oid = parts.id
JOIN pg_publication_tables ON (schemaname, tablename) IN (
    SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE pg_class.oid = parts.id OR pg_class.oid IN (SELECT above.relid FROM pg_partition_ancestors(parts.id) AS above)
)
JOIN pg_publication USING (pubname)
WHERE tables.relkind = 'r' AND (pubupdate OR $2 AND pubdelete)
    AND tables.relreplident <> 'f' AND pg_get_replica_identity_index(tables.oid) IS NULL
GROUP BY tables.oid
ORDER BY 1;
