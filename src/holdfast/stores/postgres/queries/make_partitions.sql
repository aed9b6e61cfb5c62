-- Make the partitions of the coming days.
-- :today.
SELECT holdfast.make_partitions(:today)
