-- Claims leave these queues alone.
-- $1 queues
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO holdfast.paused_queues (queue, paused_at)
SELECT unnest($1::text[]), now FROM clock
ON CONFLICT DO NOTHING
