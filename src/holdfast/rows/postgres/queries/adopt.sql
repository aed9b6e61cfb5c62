-- Stamp at most $1 rows that another program has put in progress without a stamp, so that their time runs from now on. Do the same for
-- as many whose stamp is infinite, or so far ahead that a clock must have been wrong. Return their keys.
WITH unstamped AS MATERIALIZED (
    SELECT ctid AS "holdfast row", {key} FROM {table} WHERE {status} = {in_progress} AND {claimed_at} IS NULL {among}
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
),

ahead AS MATERIALIZED (
    SELECT ctid AS "holdfast row", {key} FROM {table} WHERE {status} = {in_progress} AND {claimed_at} > {ahead} {among}
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
),

given AS MATERIALIZED (SELECT * FROM unstamped UNION ALL SELECT * FROM ahead)

UPDATE {table} AS own SET {claimed_at} = {now}
FROM given
WHERE own.ctid = ANY(ARRAY(SELECT "holdfast row" FROM given)) AND {same}
AND own.{status} IS NOT DISTINCT FROM {in_progress} AND (own.{claimed_at} IS NULL OR own.{claimed_at} > {ahead})
RETURNING {own_key};
