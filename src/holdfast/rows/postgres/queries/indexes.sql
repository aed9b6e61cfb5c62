-- The indexes of a table ($1): of which columns (NULL for expressions), of which rows, and whether they can be used.
SELECT
    class.relname AS name,
    indisunique AND indexprs IS NULL AND indpred IS NULL AS is_unique,
    indisvalid AS is_valid,
    pg_get_expr(indpred, indrelid) AS predicate,
    ARRAY(
        SELECT attname::text FROM unnest(indkey::smallint[]) WITH ORDINALITY AS part (number, place)
        LEFT JOIN pg_attribute ON attrelid = indrelid AND attnum = part.number AND attnum > 0
        WHERE place <= indnkeyatts
        ORDER BY place
    ) AS columns
FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid
WHERE indrelid = $1::bigint::oid
ORDER BY indisprimary DESC, class.relname;
