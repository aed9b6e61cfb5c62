-- Return the items of maps that have ended, in the order of their lists.
SELECT edges.child, edges.parent
FROM json_each(:places) AS place
CROSS JOIN holdfast_edges AS edges ON edges.child = substr(:items, 72 * place.value + 1, 16)
CROSS JOIN holdfast_members AS members ON members.job = edges.parent
WHERE edges.is_child
ORDER BY place.value, members.position;
