-- At most :limit rows that an owner has had for too long, oldest first and without the first :past: owner, seconds, stamp, keys.
-- A stamp of another form cannot be compared: in SQLite a number comes before any string.
SELECT {whose}, coalesce({held}, 0.0), {claimed_at}, {key} FROM {table}
WHERE {status} = {in_progress} AND {since} >= :from AND {since} < :stale AND {readable}
ORDER BY {since}
LIMIT :limit OFFSET :past;
