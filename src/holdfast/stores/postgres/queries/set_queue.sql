-- Set how the lanes of a queue are served, and change the priority of its waiting jobs by the difference, in one write.
-- :queue, :priority, :weight; :key_weights as JSON, NULL: the queue has no settings, and its row is needed only while it is paused.
-- :origin as JSON, of the settings.
-- A job that is being enqueued at the same time may keep the priority of before.
-- Lock order: the queue, waiting jobs.
WITH old AS MATERIALIZED (
    SELECT priority FROM holdfast.queues WHERE queue = :queue FOR UPDATE
),

gone AS (
    DELETE FROM holdfast.queues WHERE queue = :queue AND paused_at IS NULL AND :key_weights::text IS NULL
),

written AS (
    INSERT INTO holdfast.queues (queue, priority, weight, key_weights, origin)
    SELECT :queue, :priority, :weight, :key_weights, :origin
    WHERE :key_weights IS NOT NULL OR EXISTS (SELECT FROM holdfast.queues WHERE queue = :queue AND paused_at IS NOT NULL)
    ON CONFLICT (queue) DO UPDATE SET priority = excluded.priority, weight = excluded.weight, key_weights = excluded.key_weights,
        origin = excluded.origin
)

UPDATE holdfast.pending SET priority = priority + :priority::bigint - coalesce((SELECT old.priority FROM old), 0)
WHERE queue = :queue AND :priority <> coalesce((SELECT old.priority FROM old), 0)
