-- At most $1 rows that are due are marked, stamped and somebody's, and their locks let go of. What others have locked is passed by.
-- They are found again by their place, which needs no statistics, and their status is asked for in a way that no index answers; the
-- key tells those of one partition from another's.
WITH due AS MATERIALIZED (
    SELECT ctid AS "holdfast row", {key} FROM {table} WHERE {due} {order} LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
),

given AS MATERIALIZED (
    SELECT *, row_number() OVER () AS "holdfast place" FROM due
)

UPDATE {table} AS own SET {taken}
FROM given
WHERE own.ctid = ANY(ARRAY(SELECT "holdfast row" FROM given)) AND {same} AND own.{status} IS NOT DISTINCT FROM {pending}
RETURNING
    given."holdfast place", {stamp} AS "holdfast stamp",
    own.{status} IS NOT DISTINCT FROM {in_progress} AND {ours} AS "holdfast ours", {columns};
