-- Keep claims from taking jobs of these queues.
-- :queues.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO holdfast.paused_queues (queue, paused_at)
SELECT unnest(:queues::text[]), now FROM clock
ON CONFLICT DO NOTHING
