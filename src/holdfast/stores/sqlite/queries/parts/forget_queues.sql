-- forget_queues(): only a queue that is paused or has settings keeps a row.
DELETE FROM holdfast_queues WHERE paused_at IS NULL AND key_weights IS NULL
