-- Return the jobs of other workflows that depend on members of these, and wait or have failed because of others, as the rules of graphs see
-- them, each with the edges to it.
-- :flows.
SELECT
    -- include vertex()
CROSS JOIN LATERAL (
    SELECT
        array_agg(edges.parent ORDER BY edges.parent) AS ids, array_agg(edges.tolerates ORDER BY edges.parent) AS tolerates,
        array_agg(edges.is_child ORDER BY edges.parent) AS are_children,
        array_agg(edges.parent_flow ORDER BY edges.parent) AS flows
    FROM holdfast.edges AS edges WHERE edges.child = members.job AND edges.parent_flow = ANY(:flows::uuid[])
    OFFSET 0
) AS parents
WHERE members.job = ANY(ARRAY(
    SELECT outer_edges.child FROM holdfast.edges AS outer_edges
    WHERE outer_edges.parent_flow = ANY(:flows::uuid[]) AND (
        -- include affected(outer_edges.child)
    )
));
