-- Write the state of a flow.
UPDATE holdfast_flows SET paused_at = :paused_at, ended_for = :ended_for, deadline_at = :deadline_at
WHERE id = :flow;
