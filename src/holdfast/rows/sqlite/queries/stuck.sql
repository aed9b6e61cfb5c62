-- At most :limit rows that somebody has had for too long, oldest first: whose, for how many seconds, their stamp, their keys.
SELECT {whose}, coalesce({held}, 0.0), {claimed_at}, {key} FROM {table}
WHERE {status} = {in_progress} AND {claimed_at} < :stale
ORDER BY {claimed_at}
LIMIT :limit;
