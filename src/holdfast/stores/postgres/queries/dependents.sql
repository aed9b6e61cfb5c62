-- Return the jobs of other workflows that depend on members of this one, as the rules of graphs see them, each with the edges to it.
-- :flow.
SELECT
    -- include vertex()
CROSS JOIN LATERAL (
    SELECT
        array_agg(edges.parent ORDER BY edges.parent) AS ids, array_agg(edges.tolerates ORDER BY edges.parent) AS tolerates,
        array_agg(edges.is_child ORDER BY edges.parent) AS are_children, array_agg(edges.parent_flow) AS flows
    FROM holdfast.edges AS edges WHERE edges.child = members.job AND edges.parent_flow = :flow
    OFFSET 0
) AS parents
WHERE members.job = ANY(ARRAY(SELECT outer_edges.child FROM holdfast.edges AS outer_edges WHERE outer_edges.parent_flow = :flow));
