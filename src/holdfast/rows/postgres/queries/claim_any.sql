-- Mark and stamp at most $1 rows that are due, in any order, and release their locks. Rows that others have locked are skipped.
-- The rows are found again by their ctid, which needs no statistics. Their status is compared in a way that no
-- index answers.
WITH stamp AS MATERIALIZED (SELECT {unique} AS at)

UPDATE {table} AS own SET {taken}
WHERE own.ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE {due} {among} LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
)) AND own.{status} IS NOT DISTINCT FROM {pending}
RETURNING 0 AS "holdfast place", {told} AS "holdfast stamp",
own.{status} IS NOT DISTINCT FROM {in_progress} AND {ours} AS "holdfast ours", {columns};
