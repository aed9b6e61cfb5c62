-- Return the newest rows of the history, newest first.
SELECT at, value FROM holdfast_minutes
WHERE at > :since AND at <= :until
ORDER BY at DESC
LIMIT :limit;
