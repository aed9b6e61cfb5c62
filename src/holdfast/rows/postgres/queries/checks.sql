-- The CHECK constraints of a table ($1) that are enforced, and the columns that each names.
SELECT
    conname AS name,
    pg_get_expr(conbin, conrelid) AS expression,
    ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey)) AS columns
FROM pg_constraint AS own
WHERE conrelid = $1::bigint::oid AND contype = 'c' AND coalesce(to_jsonb(own) ->> 'conenforced', 'true') = 'true'
ORDER BY conname;
