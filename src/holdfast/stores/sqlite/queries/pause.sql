-- Keep claims from taking jobs of these queues.
INSERT INTO holdfast_paused_queues (queue, paused_at)
SELECT value, :wall FROM json_each(:queues) WHERE true
ON CONFLICT DO NOTHING;
