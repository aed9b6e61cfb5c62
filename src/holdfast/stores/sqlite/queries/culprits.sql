-- Return the parents of these members that did not complete, the first one that ended first.
SELECT place.value, members.node, jobs.reason
FROM json_each(:places) AS place
CROSS JOIN holdfast_edges AS edges ON edges.child = substr(:items, 72 * place.value + 1, 16)
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = edges.parent
CROSS JOIN holdfast_members AS members ON members.job = edges.parent
WHERE jobs.state IN ('failed', 'cancelled')
ORDER BY place.value, jobs.finished_at, jobs.id;
