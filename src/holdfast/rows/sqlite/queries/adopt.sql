-- At most :limit rows that somebody else has put in progress without a stamp get one, and those whose stamp is so far ahead that a
-- clock must have been wrong, or that is written otherwise than ours: from now on their time runs.
UPDATE {table} SET {claimed_at} = :now
WHERE {these} IN (
    SELECT {key} FROM {table} WHERE {status} = {in_progress} AND ({claimed_at} IS NULL OR {claimed_at} > :ahead) LIMIT :limit
);
