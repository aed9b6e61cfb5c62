-- Return, as JSON, the time, the states of locked workflows, and the blocked children of some of their members. Each child has its counters, and
-- those of its parents that are among these members: which it tolerates, which are its children, which belong to another workflow than it.
-- Its last value is whether it is a gate on which no other member depends.
-- :parents; :flows, locked.
WITH edge AS MATERIALIZED (
    SELECT edges.child, json_agg(edges.parent) AS parents, json_agg(edges.tolerates) AS tolerates, json_agg(edges.is_child) AS are_children,
        json_agg(edges.parent_flow IS NOT NULL) AS are_outside
    FROM holdfast.edges AS edges WHERE edges.parent = ANY(:parents::uuid[])
    GROUP BY edges.child
)

SELECT json_build_object(
    'now', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    'flows', (
        SELECT json_agg(json_build_array(
            id, (extract(epoch FROM paused_at) * 1000000)::bigint, ended_for, (extract(epoch FROM deadline_at) * 1000000)::bigint
        ))
        FROM holdfast.flows WHERE id = ANY(:flows::uuid[])
    ),
    'children', (
        SELECT json_agg(json_build_array(
            edge.child, waiting.needs, waiting.waits, waiting.is_gate, waiting.on_failure, waiting.is_suspended, waiting.is_cancelled,
            edge.parents, edge.tolerates, edge.are_children, edge.are_outside,
            waiting.is_gate AND NOT EXISTS (SELECT FROM holdfast.edges AS edges WHERE edges.parent = edge.child OFFSET 0)
        ))
        FROM edge CROSS JOIN LATERAL (
            -- include blocked(edge.child)
        ) AS waiting
    )
)::text AS links;
