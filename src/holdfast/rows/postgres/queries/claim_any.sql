-- At most $1 rows that are due, in whatever order, are marked, stamped and somebody's, and their locks let go of. What others have
-- locked is passed by. They are found again by their place, which needs no statistics, and their status is asked for in a way that no
-- index answers.
WITH stamp AS MATERIALIZED (SELECT {unique} AS at)

UPDATE {table} AS own SET {taken}
WHERE own.ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE {due} {among} LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
)) AND own.{status} IS NOT DISTINCT FROM {pending}
RETURNING 0 AS "holdfast place", {told} AS "holdfast stamp", own.{status} IS NOT DISTINCT FROM {in_progress} AND {ours} AS "holdfast ours", {columns};
