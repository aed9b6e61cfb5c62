-- Give all rows that are still in progress under the fence a new stamp; return their number and the stamp.
WITH renewed AS (
    UPDATE {table} AS own SET {claimed_at} = {now} WHERE own.{status} = {in_progress} AND {fence} RETURNING {stamp} AS stamp
)

SELECT count(*) AS number, max(stamp) AS stamp FROM renewed;
