-- Return the parents of these members that did not complete, each with its reason and when it ended.
-- :children; :ended, the members that this transaction ends without completion, but has not ended yet.
SELECT edge.child, edge.parent, known.node, known.reason, coalesce(known.finished_at, clock_timestamp()) AS finished_at
FROM unnest(:children::uuid[]) AS asked (child)
CROSS JOIN LATERAL (
    SELECT edges.child, edges.parent FROM holdfast.edges AS edges WHERE edges.child = asked.child OFFSET 0
) AS edge
CROSS JOIN LATERAL (
    SELECT members.node, over.reason, over.finished_at
    FROM holdfast.members AS members
    LEFT JOIN LATERAL (
        SELECT job.reason, job.finished_at FROM holdfast.finished_other AS job
        WHERE job.id = edge.parent AND job.state IN ('failed', 'cancelled')
        LIMIT 1
    ) AS over ON true
    WHERE members.job = edge.parent AND (over.finished_at IS NOT NULL OR edge.parent = ANY(:ended::uuid[]))
    OFFSET 0
) AS known;
