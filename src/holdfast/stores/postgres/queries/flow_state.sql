-- Return the state of a workflow, and the time.
-- :flow.
SELECT id, paused_at, ended_for, deadline_at, clock_timestamp() AS now FROM holdfast.flows WHERE id = :flow;
