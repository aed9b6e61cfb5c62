-- The keys of at most :limit rows in progress whose stamp is not of the form that is compared: no statement takes them back.
SELECT {key} FROM {table} WHERE {status} = {in_progress} AND {claimed_at} IS NOT NULL AND NOT ({readable}) LIMIT :limit;
