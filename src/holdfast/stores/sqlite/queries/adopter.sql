-- Return a job as one that adds members to its workflow; its priority without that of its queue.
SELECT
    record.task, record.queue, record.key,
    record.priority - coalesce((SELECT queues.priority FROM holdfast_queues AS queues WHERE queues.queue = record.queue), 0),
    record.tags, record.flow, record.member
FROM holdfast_record AS record
WHERE record.id = :job;
