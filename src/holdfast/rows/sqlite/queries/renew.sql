-- Give all rows that are still in progress under the fence a new stamp.
UPDATE {table} SET {claimed_at} = :now WHERE {status} = {in_progress} AND {fence};
