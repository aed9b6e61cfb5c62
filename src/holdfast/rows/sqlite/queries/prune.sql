-- At most :limit rows that have been done for longer than they are kept are deleted.
DELETE FROM {table} WHERE {these} IN (
    SELECT {key} FROM {table} WHERE {status} = {done} AND {claimed_at} < :forgettable ORDER BY {claimed_at} LIMIT :limit
);
