-- Let claims take from these queues again.
DELETE FROM holdfast_paused_queues WHERE queue IN (SELECT value FROM json_each(:queues));
