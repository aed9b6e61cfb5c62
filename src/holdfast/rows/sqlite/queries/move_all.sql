-- All rows that are still in progress under the mark, found by its stamp, become what they shall be.
UPDATE {table} SET {moved} WHERE {status} = {in_progress} AND {claimed_at} = {stamp} AND {fence};
