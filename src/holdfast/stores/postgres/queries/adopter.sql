-- Return an unfinished job as one that adds members to its workflow; its priority without that of its queue.
-- :job.
SELECT
    task, queue, key,
    priority - coalesce((SELECT queues.priority FROM holdfast.queues AS queues WHERE queues.queue = jobs.queue), 0) AS priority,
    tags, flow, member
FROM holdfast.jobs AS jobs WHERE id = :job AND place IN ('pending', 'active');
