-- The keys of at most $1 rows that a batch may have, in its order; none is locked.
SELECT {key} FROM {source} WHERE {which} {order} LIMIT $1;
