-- All rows that are still in progress under the mark, found by its stamp, are deleted.
DELETE FROM {table} WHERE {status} = {in_progress} AND {claimed_at} = {stamp} AND {fence};
