-- Delete at most :limit rows that have been done for longer than they are kept; none whose stamp is of another form.
DELETE FROM {table} WHERE {these} IN (
    SELECT {key} FROM {table} WHERE {status} = {done} AND {since} >= :from AND {since} < :forgettable AND {readable} {among}
    ORDER BY {since} LIMIT :limit
);
