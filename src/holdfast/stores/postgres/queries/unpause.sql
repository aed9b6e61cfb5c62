-- Let claims take from these queues again, and return those that were paused. The row of a queue without settings is not needed any more.
-- :queues.
WITH gone AS (
    DELETE FROM holdfast.queues WHERE queue = ANY(:queues::text[]) AND key_weights IS NULL RETURNING queue
),

kept AS (
    UPDATE holdfast.queues SET paused_at = NULL
    WHERE queue = ANY(:queues::text[]) AND key_weights IS NOT NULL AND paused_at IS NOT NULL
    RETURNING queue
)

SELECT queue FROM gone
UNION ALL
SELECT queue FROM kept
