-- The same in an order, or of a table in parts, where only the key distinguishes the rows of two parts.
WITH stamp AS MATERIALIZED (SELECT {unique} AS at),

due AS MATERIALIZED (
    SELECT ctid AS "holdfast row", {key} FROM {table} WHERE {due} {among} {order} LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
),

given AS MATERIALIZED (
    SELECT *, row_number() OVER () AS "holdfast place" FROM due
)

UPDATE {table} AS own SET {taken}
FROM given
WHERE own.ctid = ANY(ARRAY(SELECT "holdfast row" FROM given)) AND {same} AND own.{status} IS NOT DISTINCT FROM {pending}
RETURNING
    given."holdfast place", {told} AS "holdfast stamp",
    own.{status} IS NOT DISTINCT FROM {in_progress} AND {ours} AS "holdfast ours", {columns};
