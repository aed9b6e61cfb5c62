-- How many rows are due, how many are stuck, and for how many seconds the oldest has had its owner.
SELECT
    (SELECT count(*) FROM {table} WHERE {due}) AS due,
    (SELECT count(*) FROM {table} WHERE {status} = {in_progress} AND {claimed_at} < {stale}) AS stuck,
    (SELECT extract(epoch FROM {now} - min({claimed_at}))::float8 FROM {table}
        WHERE {status} = {in_progress} AND isfinite({claimed_at})) AS oldest;
