-- Write what a job is in its workflow that has added members, and what these are in it.
-- :job, :flow; :node, :on_failure, :is_gate, :inputs, :is_suspended of the job; :members and :edges, as JSON: one list for each.
WITH known AS MATERIALIZED (
    SELECT :flow::uuid AS id, coalesce(max(members.position), 0) AS last FROM holdfast.members AS members WHERE members.flow = :flow
),

own AS (
    INSERT INTO holdfast.members AS members (job, flow, position, node, on_failure, is_gate, inputs, needs, waits, is_suspended)
    VALUES (:job, :flow, 0, :node, :on_failure, :is_gate, :inputs, 0, 0, :is_suspended)
    ON CONFLICT (job) DO UPDATE SET
        on_failure = excluded.on_failure, is_gate = excluded.is_gate, inputs = excluded.inputs, is_suspended = excluded.is_suspended,
        required = CASE WHEN NOT excluded.is_gate THEN members.required END
),

-- include new_members()

UPDATE holdfast.pending SET flow = :flow WHERE id = :job AND flow IS NULL;
