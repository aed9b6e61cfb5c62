-- Return the edges that lead to a member, and those that lead from it.
SELECT parent, child, tolerates, is_child, parent_flow FROM holdfast_edges WHERE child = :job
UNION
SELECT parent, child, tolerates, is_child, parent_flow FROM holdfast_edges WHERE parent = :job;
