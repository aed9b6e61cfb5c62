-- Return at most $1 rows that an owner has had for too long to pending, the oldest first and without the first $2; after too many resets they fail.
WITH given AS MATERIALIZED (
    SELECT ctid AS "holdfast row", {key}, {claimed_at} AS "holdfast stamp", {whose} AS "holdfast owner" FROM {table}
    WHERE {status} = {in_progress} AND {claimed_at} < {stale} {among}
    ORDER BY {claimed_at}
    LIMIT $1 OFFSET $2
    FOR NO KEY UPDATE SKIP LOCKED
)

UPDATE {table} AS own SET {moved}
FROM given
WHERE own.ctid = ANY(ARRAY(SELECT "holdfast row" FROM given)) AND {same}
AND own.{status} IS NOT DISTINCT FROM {in_progress} AND own.{claimed_at} = given."holdfast stamp"
RETURNING
    own.{status} <> {pending} AS has_failed, given."holdfast owner" AS whose,
    extract(epoch FROM {now} - greatest(given."holdfast stamp", 'epoch'))::float8 AS held, {own_key};
