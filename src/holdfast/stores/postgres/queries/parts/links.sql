-- links(ids_of, place_of): JSON of the time, of the states of locked workflows, and of the blocked children of these members. Children that are
-- alike are there together: in their counters, and in their edges from these members. An edge is a number: 8 times the place of the parent, 4
-- if the child tolerates it, 2 if the parent is a child of it, 1 if it belongs to another workflow. Gates, and children in other workflows, are
-- there one by one. First come the id of one, and those of all if there are several. The last value is whether it is a gate on which no other
-- member depends.
WITH edge AS MATERIALIZED (
    SELECT
        edges.child, array_agg(
            8 * place_of
            + 4 * edges.tolerates::integer + 2 * edges.is_child::integer + (edges.parent_flow IS NOT NULL)::integer
        ) AS links, bool_or(edges.parent_flow IS NOT NULL) AS is_outside
    FROM holdfast.edges AS edges WHERE edges.parent = ANY(ids_of)
    GROUP BY edges.child
),

alike AS (
    SELECT
        array_agg(edge.child) AS jobs, waiting.*, edge.links, CASE WHEN waiting.is_gate OR edge.is_outside THEN edge.child END AS alone
    FROM edge CROSS JOIN LATERAL (
        -- include blocked(edge.child)
    ) AS waiting
    GROUP BY
        waiting.needs, waiting.waits, waiting.is_gate, waiting.on_failure, waiting.is_suspended, waiting.is_cancelled, edge.links, alone
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
            jobs[1], CASE WHEN cardinality(jobs) > 1 THEN jobs::text END,
            needs, waits, is_gate, on_failure, is_suspended, is_cancelled, links,
            is_gate AND NOT EXISTS (SELECT FROM holdfast.edges AS edges WHERE edges.parent = alike.alone OFFSET 0)
        ))
        FROM alike
    )
)::text AS links
