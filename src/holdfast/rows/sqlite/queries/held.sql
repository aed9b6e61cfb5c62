-- The keys of rows in progress under the fence, in the order in which they were due.
SELECT {key} FROM {table} WHERE {status} = {in_progress} AND {fence} {order};
