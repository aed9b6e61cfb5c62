-- Let claims take from these queues again. The row of a queue without settings is not needed any more.
-- :queues.
WITH gone AS (
    DELETE FROM holdfast.queues WHERE queue = ANY(:queues::text[]) AND key_weights IS NULL
)

UPDATE holdfast.queues SET paused_at = NULL
WHERE queue = ANY(:queues::text[]) AND key_weights IS NOT NULL AND paused_at IS NOT NULL
