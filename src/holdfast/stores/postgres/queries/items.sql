-- Return the items of maps that have ended, in the order of their lists.
-- :maps.
SELECT edges.child AS map, edges.parent AS item
FROM holdfast.edges AS edges JOIN holdfast.members AS members ON members.job = edges.parent
WHERE edges.child = ANY(:maps::uuid[]) AND edges.is_child
ORDER BY members.position;
