-- The keys of at most :most rows that a batch may have, in its order.
SELECT {key} FROM {table} WHERE {which} {order} LIMIT :most;
