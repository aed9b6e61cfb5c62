-- How many rows are due, how many are stuck, and for how many seconds the oldest has had its owner.
SELECT
    (SELECT count(*) FROM {table} WHERE {due}),
    (SELECT count(*) FROM {table} WHERE {status} = {in_progress} AND {since} < :stale AND {readable}),
    (SELECT max({held}) FROM {table} WHERE {status} = {in_progress});
