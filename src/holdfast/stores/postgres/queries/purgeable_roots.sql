-- Return waiting jobs of a queue that have a workflow only because others depend on them, or they on others.
-- :queue; :limit; :until when they were enqueued.
SELECT members.job AS id FROM holdfast.members AS members
WHERE members.job = ANY(ARRAY(
        SELECT root.id FROM holdfast.pending AS root
        WHERE root.flow = root.id AND root.queue = :queue AND root.created_at <= :until
            AND (root.state = 'available') IS TRUE -- keeps the planner off the index of all waiting jobs
    )) AND -- include lone(members)
LIMIT :limit;
