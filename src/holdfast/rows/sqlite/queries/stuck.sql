-- At most :limit rows that somebody has had for too long, oldest first and without the first :past: whose, for how many seconds, their stamp, their keys.
-- A stamp of another form says nothing about time: in SQLite a number comes before any text.
SELECT {whose}, coalesce({held}, 0.0), {claimed_at}, {key} FROM {table}
WHERE {status} = {in_progress} AND {since} >= :from AND {since} < :stale AND {readable}
ORDER BY {since}
LIMIT :limit OFFSET :past;
