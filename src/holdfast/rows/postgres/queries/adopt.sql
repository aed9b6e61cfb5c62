-- At most $1 rows that somebody else has put in progress without a stamp get one: from now on their time runs.
WITH given AS MATERIALIZED (
    SELECT ctid AS "holdfast row", {key} FROM {table} WHERE {status} = {in_progress} AND {claimed_at} IS NULL
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)

UPDATE {table} AS own SET {claimed_at} = {now}
FROM given
WHERE own.ctid = ANY(ARRAY(SELECT "holdfast row" FROM given)) AND {same}
AND own.{status} IS NOT DISTINCT FROM {in_progress} AND own.{claimed_at} IS NULL;
