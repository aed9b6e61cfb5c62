-- Write what a job that has added members is in its workflow now.
INSERT INTO holdfast_members (job, flow, position, node, required, on_failure, is_gate, inputs, is_suspended)
VALUES (:job, :flow, 0, :node, NULL, :on_failure, :is_gate, :inputs, :is_suspended)
ON CONFLICT (job) DO UPDATE SET
    on_failure = excluded.on_failure, is_gate = excluded.is_gate, inputs = excluded.inputs, is_suspended = excluded.is_suspended,
    required = iif(excluded.is_gate, NULL, required);
