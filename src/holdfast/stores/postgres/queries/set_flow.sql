-- Write the state of a workflow.
-- :flow, locked; :paused_at, :ended_for, :deadline_at.
UPDATE holdfast.flows SET paused_at = :paused_at, ended_for = :ended_for, deadline_at = :deadline_at WHERE id = :flow;
