-- Let claims take from these queues again.
-- :queues.
DELETE FROM holdfast.paused_queues WHERE queue = ANY (:queues::text[])
