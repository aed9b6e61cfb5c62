-- Whether a claim would find something.
SELECT EXISTS (SELECT 1 FROM {table} WHERE {due});
