-- Return the partitions of past days, oldest first: whether each is attached or half detached, and whether this user may drop it.
-- :schema; :today, the first day that has not passed.
SELECT
    tables.relname::text AS name,
    to_date(right(tables.relname, 8), 'YYYYMMDD') AS day,
    tables.relname LIKE 'finished%' AS is_finished,
    parts.inhrelid IS NOT NULL AS is_attached,
    coalesce(parts.inhdetachpending, false) AS is_pending,
    pg_has_role(tables.relowner, 'USAGE') AS is_ours
FROM pg_class AS tables
JOIN pg_namespace AS schemas ON schemas.oid = tables.relnamespace
LEFT JOIN pg_inherits AS parts ON parts.inhrelid = tables.oid
WHERE schemas.nspname = :schema
    AND tables.relkind = 'r'
    AND tables.relname ~ '^(finished|attempts)_[0-9]{8}$'
    AND right(tables.relname, 8) < to_char(:today::date, 'YYYYMMDD')
ORDER BY right(tables.relname, 8), tables.relname DESC
