-- Return the jobs of a flow for which there is no record of what they are in it, each with its task, and with how many successes it requires.
-- What a blocked one waited for, and what it would have done, is not known any more: it requires more than its parents, so it fails.
SELECT jobs.id, jobs.task, CASE
    WHEN jobs.state = 'blocked' THEN (SELECT count(*) + 1 FROM holdfast_edges AS edges WHERE edges.child = jobs.id)
END
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
ORDER BY jobs.id;
