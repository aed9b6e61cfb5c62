-- Return the edges that lead to members of a flow.
SELECT edges.parent, edges.child, edges.tolerates, edges.is_child, edges.parent_flow
FROM holdfast_members AS members
JOIN holdfast_edges AS edges ON edges.child = members.job
WHERE members.flow = :flow
ORDER BY members.position, edges.parent;
