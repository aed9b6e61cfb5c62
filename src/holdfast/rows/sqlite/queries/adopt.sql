-- At most :limit rows that somebody else has put in progress without a stamp get one: from now on their time runs.
UPDATE {table} SET {claimed_at} = :now
WHERE {these} IN (SELECT {key} FROM {table} WHERE {status} = {in_progress} AND {claimed_at} IS NULL LIMIT :limit);
