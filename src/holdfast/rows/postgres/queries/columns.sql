-- The columns of a table ($1), and what may be done to them. What a domain is made of stands in base and modifier.
SELECT
    attname AS name,
    format_type(atttypid, atttypmod) AS type,
    format_type(atttypid, NULL) AS plain,
    base.typname AS base,
    format_type(base.oid, NULL) AS base_type,
    CASE WHEN own.typtype = 'd' THEN own.typtypmod ELSE atttypmod END AS modifier,
    base.typcategory::text AS category,
    attnotnull OR own.typnotnull AS is_required,
    attgenerated <> '' AS is_generated,
    has_column_privilege(attrelid, attnum, 'SELECT') AS may_read,
    has_column_privilege(attrelid, attnum, 'UPDATE') AS may_write
FROM pg_attribute
JOIN pg_type AS own ON own.oid = atttypid
JOIN pg_type AS base ON base.oid = CASE WHEN own.typtype = 'd' THEN own.typbasetype ELSE own.oid END
WHERE attrelid = $1::bigint::oid AND attnum > 0 AND NOT attisdropped
ORDER BY attnum;
