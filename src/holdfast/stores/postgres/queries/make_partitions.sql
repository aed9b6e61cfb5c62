-- Partitions for the days to come.
-- $1 today
SELECT holdfast.make_partitions($1)
