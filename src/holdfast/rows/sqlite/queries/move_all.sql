-- Move all rows that are still in progress under the fence, found by its stamp.
UPDATE {table} SET {moved} WHERE {status} = {in_progress} AND {claimed_at} = {stamp} AND {fence};
