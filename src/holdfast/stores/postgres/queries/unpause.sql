-- Claims take from these queues again.
-- $1 queues
DELETE FROM holdfast.paused_queues WHERE queue = ANY ($1::text[])
