-- Return the jobs of a flow for which there is no record of what they are in it.
-- Each comes with its task, with how many successes it requires, and with whether it is a gate.
-- What a blocked one waited for, and what it would have done, is not known any more: it requires more than its parents, so it fails.
-- A root that only waits for jobs of other flows requires all of them; one that does not wait, or so, is not a gate.
SELECT
    id, task, iif(is_unknown, (SELECT count(*) + 1 FROM holdfast_edges AS edges WHERE edges.child = lost.id), NULL),
    id = :flow AND is_unknown
FROM (
    SELECT jobs.id, jobs.task, jobs.state = 'blocked' AND (
        SELECT min(edges.parent_flow IS NOT NULL) FROM holdfast_edges AS edges WHERE edges.child = jobs.id
    ) IS NOT 1 AS is_unknown
    FROM (
        SELECT :flow AS job
        UNION
        SELECT parent FROM holdfast_edges WHERE child = :flow AND parent_flow IS NULL
        UNION
        SELECT edges.parent
        FROM holdfast_members AS members
        CROSS JOIN holdfast_edges AS edges ON edges.child = members.job
        WHERE members.flow = :flow AND edges.parent_flow IS NULL
    ) AS known
    CROSS JOIN holdfast_jobs AS jobs ON jobs.id = known.job
    WHERE NOT EXISTS (SELECT 1 FROM holdfast_members AS members WHERE members.job = jobs.id)
) AS lost
ORDER BY id;
