-- Partitions for the days to come.
-- :today.
SELECT holdfast.make_partitions(:today)
