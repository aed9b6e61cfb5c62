-- Lock workflows, and return their states and the time.
-- :flows.
-- The first statement of each transaction that moves members: the next one sees what earlier holders of the locks have committed.
WITH locked AS MATERIALIZED (
    SELECT id, paused_at, ended_for, deadline_at FROM holdfast.flows WHERE id = ANY(:flows::uuid[]) ORDER BY id FOR UPDATE
)

SELECT locked.*, clock_timestamp() AS now FROM locked;
