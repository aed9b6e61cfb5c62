-- Return a flow with all its members and their parents, in one snapshot.
SELECT
    flows.paused_at, flows.ended_for, flows.deadline_at,
    (SELECT group_concat(hex(edges.parent)) FROM holdfast_edges AS edges WHERE edges.child = members.job),
    -- include shown()
    AS now, record.*
FROM holdfast_flows AS flows
JOIN holdfast_members AS members ON members.flow = flows.id
JOIN holdfast_record AS record ON record.id = members.job
WHERE flows.id = :flow
ORDER BY members.job = flows.id, members.position;
