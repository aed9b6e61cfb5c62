-- Return all rows that are still in progress under the fence to pending, and count them.
WITH released AS (
    UPDATE {table} AS own SET {moved} WHERE own.{status} = {in_progress} AND {fence} {among} RETURNING 1
)

SELECT count(*) FROM released;
