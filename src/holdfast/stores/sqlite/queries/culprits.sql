-- Return the parents of these members that did not complete, and those of the gates among them; the first one that ended first.
WITH RECURSIVE failed (place, job, is_gate) AS (
    SELECT place.value, members.job, members.is_gate
    FROM json_each(:places) AS place
    CROSS JOIN holdfast_edges AS edges ON edges.child = substr(:items, 72 * place.value + 1, 16)
    CROSS JOIN holdfast_jobs AS jobs ON jobs.id = edges.parent
    CROSS JOIN holdfast_members AS members ON members.job = edges.parent
    WHERE jobs.state IN ('failed', 'cancelled')
    UNION
    SELECT failed.place, members.job, members.is_gate
    FROM failed
    CROSS JOIN holdfast_edges AS edges ON edges.child = failed.job
    CROSS JOIN holdfast_jobs AS jobs ON jobs.id = edges.parent
    CROSS JOIN holdfast_members AS members ON members.job = edges.parent
    WHERE failed.is_gate AND jobs.state IN ('failed', 'cancelled')
)
SELECT failed.place, members.node, jobs.reason
FROM failed
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = failed.job
CROSS JOIN holdfast_members AS members ON members.job = failed.job
ORDER BY failed.place, jobs.finished_at, jobs.id;
