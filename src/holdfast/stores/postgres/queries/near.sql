-- Return a member, its parents and its children, as the rules of graphs see them, each with the edges between it and this member.
-- :job.
SELECT
    -- include vertex()
CROSS JOIN LATERAL (
    SELECT
        array_agg(edges.parent ORDER BY edges.parent) AS ids, array_agg(edges.tolerates ORDER BY edges.parent) AS tolerates,
        array_agg(edges.is_child ORDER BY edges.parent) AS are_children, array_agg(edges.parent_flow ORDER BY edges.parent) AS flows
    FROM (
        SELECT parent, tolerates, is_child, parent_flow FROM holdfast.edges WHERE child = :job AND members.job = :job
        UNION ALL
        SELECT parent, tolerates, is_child, parent_flow FROM holdfast.edges WHERE parent = :job AND child = members.job
    ) AS edges
    OFFSET 0
) AS parents
WHERE members.job = ANY(ARRAY(
    SELECT :job
    UNION ALL
    SELECT parent FROM holdfast.edges WHERE child = :job
    UNION ALL
    SELECT child FROM holdfast.edges WHERE parent = :job
));
