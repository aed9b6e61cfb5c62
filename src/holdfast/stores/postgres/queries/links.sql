-- Return, as JSON, the time, the states of locked workflows, and the blocked children of some of their members. Children that are alike are
-- returned together: in their counters, in those of their parents that are among these members, and in what each of these edges is: which the
-- child tolerates, which is its child, which leads from another workflow. Gates, and children in other workflows, are returned one by one.
-- First come the id of one, and those of all if there are several. The last value is whether it is a gate on which no other member depends.
-- :parents (ascending); :shown, for each of them the place of the one as which it is returned; :flows, locked.
WITH edge AS MATERIALIZED (
    SELECT
        edges.child, array_agg((:shown::integer[])[width_bucket(edges.parent, :parents::uuid[])]) AS parents,
        array_agg(edges.tolerates) AS tolerates, array_agg(edges.is_child) AS are_children,
        array_agg(edges.parent_flow IS NOT NULL) AS are_outside
    FROM holdfast.edges AS edges WHERE edges.parent = ANY(:parents::uuid[])
    GROUP BY edges.child
),

alike AS (
    SELECT
        array_agg(edge.child) AS jobs, waiting.*, edge.parents, edge.tolerates, edge.are_children, edge.are_outside,
        CASE WHEN waiting.is_gate OR true = ANY(edge.are_outside) THEN edge.child END AS alone
    FROM edge CROSS JOIN LATERAL (
        -- include blocked(edge.child)
    ) AS waiting
    GROUP BY
        waiting.needs, waiting.waits, waiting.is_gate, waiting.on_failure, waiting.is_suspended, waiting.is_cancelled,
        edge.parents, edge.tolerates, edge.are_children, edge.are_outside, alone
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
            needs, waits, is_gate, on_failure, is_suspended, is_cancelled, parents, tolerates, are_children, are_outside,
            is_gate AND NOT EXISTS (SELECT FROM holdfast.edges AS edges WHERE edges.parent = alike.alone OFFSET 0)
        ))
        FROM alike
    )
)::text AS links;
