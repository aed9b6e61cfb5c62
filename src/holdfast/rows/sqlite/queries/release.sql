-- Return all rows that are still in progress under the fence to pending.
UPDATE {table} SET {moved} WHERE {status} = {in_progress} AND {fence} {among};
