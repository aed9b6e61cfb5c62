-- Delete all rows that are still in progress under the fence, found by its stamp.
DELETE FROM {table} WHERE {status} = {in_progress} AND {claimed_at} = {stamp} AND {fence};
