-- Delete at most $1 rows that have been done for longer than they are kept, none whose stamp is infinite. Return how many.
WITH given AS MATERIALIZED (
    SELECT ctid AS "holdfast row",
    {key} FROM {table} WHERE {status} = {done} AND {claimed_at} < {forgettable} AND isfinite({claimed_at}) {among}
    ORDER BY {claimed_at}
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),

gone AS (
    DELETE FROM {table} AS own USING given
    WHERE own.ctid = ANY(ARRAY(SELECT "holdfast row" FROM given)) AND {same} AND own.{status} IS NOT DISTINCT FROM {done}
    RETURNING 1
)

SELECT count(*) FROM gone;
