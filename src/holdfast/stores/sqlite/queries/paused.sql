-- Return those of these queues that are paused.
SELECT queue FROM holdfast_queues WHERE paused_at IS NOT NULL AND queue IN (SELECT value FROM json_each(:queues));
