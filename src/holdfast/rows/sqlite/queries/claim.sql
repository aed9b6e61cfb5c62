-- Mark and stamp at most :limit rows that are due; none if others are in progress under the same fence.
UPDATE {table} SET {taken}
WHERE {these} IN (
    SELECT {key} FROM {table}
    WHERE {due} AND NOT EXISTS (SELECT 1 FROM {table} WHERE {status} = {in_progress} AND {fence}) {among}
    {order}
    LIMIT :limit
)
AND {status} = {pending}
RETURNING {columns};
