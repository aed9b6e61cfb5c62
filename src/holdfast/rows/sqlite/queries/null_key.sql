-- Whether there is a row without that part of its key.
SELECT EXISTS (SELECT 1 FROM {table} WHERE {column} IS NULL);
