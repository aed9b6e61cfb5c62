-- Return the state of a flow.
SELECT paused_at, ended_for, deadline_at FROM holdfast_flows WHERE id = :flow;
