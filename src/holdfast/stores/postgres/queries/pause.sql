-- Keep claims from taking jobs of these queues, and return those that were not paused; a queue that is paused already keeps its time.
-- :queues.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
INSERT INTO holdfast.queues AS queues (queue, paused_at)
SELECT DISTINCT unnest(:queues::text[]), now FROM clock
ORDER BY 1
ON CONFLICT (queue) DO UPDATE SET paused_at = excluded.paused_at WHERE queues.paused_at IS NULL
RETURNING queue
