-- Return the newest rows of the history, newest first.
-- :since; :until; :limit.
SELECT at, value FROM holdfast.minutes
WHERE at > :since AND at <= :until
ORDER BY at DESC
LIMIT :limit
