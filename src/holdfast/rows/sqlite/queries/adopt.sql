-- Stamp at most :limit rows that another program has put in progress without a stamp, and those whose stamp is so far ahead that a
-- clock must have been wrong: their time runs from now on. A stamp of another form cannot be compared, and stays as it is.
UPDATE {table} SET {claimed_at} = :now
WHERE {these} IN (
    SELECT {key} FROM {table}
    WHERE {status} = {in_progress} AND ({claimed_at} IS NULL OR {since} > :ahead AND {readable}) {among}
    LIMIT :limit
)
RETURNING {key};
