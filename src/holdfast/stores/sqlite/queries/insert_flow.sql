-- Insert a flow, whose root and members have just been inserted.
INSERT INTO holdfast_flows (id, deadline_at) VALUES (:flow, :wall + :deadline);
