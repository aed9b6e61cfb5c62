-- Return the parents of these members that did not complete, each with its reason and when it ended, and those of the gates among them.
-- :children; :ended, the members that this transaction ends without completion, but has not ended yet.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

failed (child, parent, node, is_gate, reason, finished_at) AS (
    SELECT asked.child, asked.child, NULL, true, NULL, NULL::timestamptz FROM unnest(:children::uuid[]) AS asked (child)
    UNION
    SELECT failed.child, edge.parent, known.node, known.is_gate, known.reason, coalesce(known.finished_at, (SELECT now FROM clock))
    FROM failed
    CROSS JOIN LATERAL (
        SELECT edges.parent FROM holdfast.edges AS edges WHERE edges.child = failed.parent OFFSET 0
    ) AS edge
    CROSS JOIN LATERAL (
        SELECT members.node, members.is_gate, over.reason, over.finished_at
        FROM holdfast.members AS members
        LEFT JOIN LATERAL (
            SELECT job.reason, job.finished_at FROM holdfast.finished_other AS job
            WHERE job.id = edge.parent AND job.state IN ('failed', 'cancelled')
            LIMIT 1
        ) AS over ON true
        WHERE members.job = edge.parent AND (over.finished_at IS NOT NULL OR edge.parent = ANY(:ended::uuid[]))
        OFFSET 0
    ) AS known
    WHERE failed.is_gate
)

SELECT child, parent, node, reason, finished_at FROM failed WHERE node IS NOT NULL;
