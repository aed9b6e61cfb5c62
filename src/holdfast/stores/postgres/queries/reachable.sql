-- Return a workflow, and those that its moves may reach: their roots depend on its members, or on those of one of them. Return of each also
-- the workflows on whose members its root depends.
-- :flow.
WITH RECURSIVE reached (flow) AS (
    SELECT :flow::uuid
    UNION
    SELECT outer_edge.child FROM reached CROSS JOIN LATERAL (
        SELECT edges.child FROM holdfast.edges AS edges
        WHERE edges.parent_flow = reached.flow AND (
            -- include affected(edges.child)
        )
        OFFSET 0
    ) AS outer_edge
)

SELECT flow, ARRAY(
    SELECT edges.parent_flow FROM holdfast.edges AS edges WHERE edges.child = reached.flow AND edges.parent_flow IS NOT NULL
) AS parents
FROM reached;
