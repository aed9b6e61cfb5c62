-- All rows that are still in progress under the mark are stamped anew.
UPDATE {table} SET {claimed_at} = :now WHERE {status} = {in_progress} AND {fence};
