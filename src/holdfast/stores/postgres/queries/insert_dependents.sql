-- Make jobs that this transaction has inserted the roots of workflows, and tie each of them to the same parents.
-- :ids of jobs; :required, how many parents must succeed, NULL: all; :needs, :waits; :parents, and of each its workflow in :flows; :tolerates.
WITH added AS (
    UPDATE holdfast.pending SET flow = id WHERE id = ANY(:ids::uuid[]) RETURNING id, task
),

flows AS (
    INSERT INTO holdfast.flows (id) SELECT id FROM added
),

members AS (
    INSERT INTO holdfast.members (job, flow, position, node, required, on_failure, is_gate, needs, waits)
    SELECT id, id, 0, task, :required::integer, 'fail', false, :needs::integer, :waits::integer FROM added
)

INSERT INTO holdfast.edges (parent, child, tolerates, is_child, parent_flow)
SELECT parent.id, added.id, :tolerates::boolean, false, parent.flow
FROM added CROSS JOIN unnest(:parents::uuid[], :flows::uuid[]) AS parent (id, flow);
