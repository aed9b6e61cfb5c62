-- Return a workflow with all its members and their parents, in one snapshot.
-- :flow.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
known AS MATERIALIZED (
    SELECT
        flows.paused_at, flows.ended_for, flows.deadline_at, members.job, members.position,
        ARRAY(SELECT edges.parent FROM holdfast.edges AS edges WHERE edges.child = members.job) AS parents
    FROM holdfast.flows AS flows JOIN holdfast.members AS members ON members.flow = flows.id
    WHERE flows.id = :flow
)
SELECT
    known.paused_at, known.ended_for, known.deadline_at, known.parents, jobs.*, -- include early_as((SELECT now FROM clock))
    AS early_as
FROM known JOIN holdfast.jobs ON jobs.id = known.job
ORDER BY jobs.id = :flow, known.position; -- the root comes last
