-- new_members(): insert :members of the flow that ``known`` names, after its last position, and :edges; as JSON, one list for each.
members AS (
    INSERT INTO holdfast.members (job, flow, position, node, required, on_failure, is_gate, inputs, needs, waits)
    SELECT
        (member.value ->> 0)::uuid, known.id, known.last + member.place, member.value ->> 1, (member.value ->> 2)::integer,
        member.value ->> 3, (member.value ->> 4)::boolean, member.value ->> 5, (member.value ->> 6)::integer,
        (member.value ->> 7)::integer
    FROM known CROSS JOIN json_array_elements(:members::json) WITH ORDINALITY AS member (value, place)
),

edges AS (
    INSERT INTO holdfast.edges (parent, child, tolerates, is_child)
    SELECT (edge.value ->> 0)::uuid, (edge.value ->> 1)::uuid, (edge.value ->> 2)::boolean, (edge.value ->> 3)::boolean
    FROM known CROSS JOIN json_array_elements(:edges::json) AS edge (value)
)
