-- All rows that are still in progress under the mark are pending again.
UPDATE {table} SET {moved} WHERE {status} = {in_progress} AND {fence} {among};
