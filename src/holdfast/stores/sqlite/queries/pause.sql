-- Keep claims from taking jobs of these queues.
INSERT INTO holdfast_queues (queue, paused_at)
SELECT value, :wall FROM json_each(:queues) WHERE true
ON CONFLICT DO UPDATE SET paused_at = coalesce(paused_at, excluded.paused_at);
