-- Return members of other workflows on which one depends, as the rules of graphs see them, each with the state of its workflow: NULL, if the
-- row of that was lost.
-- :ids of members.
SELECT
    members.flow, flows.paused_at, flows.ended_for, flows.deadline_at, -- include vertex()
CROSS JOIN LATERAL (
    SELECT NULL::uuid[] AS ids, NULL::boolean[] AS tolerates, NULL::boolean[] AS are_children, NULL::uuid[] AS flows
) AS parents
LEFT JOIN holdfast.flows AS flows ON flows.id = members.flow
WHERE members.job = ANY(:ids::uuid[]);
