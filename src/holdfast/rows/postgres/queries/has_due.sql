-- Whether a claim would find something.
SELECT EXISTS (SELECT FROM {table} WHERE {due});
