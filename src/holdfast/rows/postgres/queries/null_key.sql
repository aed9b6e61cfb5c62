-- Whether there is a row without that part of its key.
SELECT EXISTS (SELECT FROM {table} WHERE {column} IS NULL);
