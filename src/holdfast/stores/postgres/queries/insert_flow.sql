-- Insert what the jobs of a new workflow are in it, if its root has been inserted in this transaction; return it then.
-- :flow; :deadline, in seconds; :members and :edges, as JSON: one list for each.
WITH added AS (
    INSERT INTO holdfast.flows (id, deadline_at)
    SELECT :flow, (SELECT clock_timestamp()) + :deadline::double precision * interval '1 second'
    WHERE EXISTS (SELECT FROM holdfast.pending AS root WHERE root.id = :flow AND root.flow = :flow)
    ON CONFLICT DO NOTHING
    RETURNING id
),

members AS (
    INSERT INTO holdfast.members (job, flow, position, node, required, on_failure, is_gate, inputs, needs, waits)
    SELECT
        (member.value ->> 0)::uuid, added.id, member.place, member.value ->> 1, (member.value ->> 2)::integer, member.value ->> 3,
        (member.value ->> 4)::boolean, member.value ->> 5, (member.value ->> 6)::integer, (member.value ->> 7)::integer
    FROM added CROSS JOIN json_array_elements(:members::json) WITH ORDINALITY AS member (value, place)
),

edges AS (
    INSERT INTO holdfast.edges (parent, child, tolerates)
    SELECT (edge.value ->> 0)::uuid, (edge.value ->> 1)::uuid, (edge.value ->> 2)::boolean
    FROM added CROSS JOIN json_array_elements(:edges::json) AS edge (value)
)

SELECT id FROM added;
