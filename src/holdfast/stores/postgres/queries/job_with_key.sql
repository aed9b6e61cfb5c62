-- Return the unfinished job of a task that has this unique key.
-- :task, :key.
SELECT job FROM holdfast.unique_keys WHERE task = :task AND key = :key
