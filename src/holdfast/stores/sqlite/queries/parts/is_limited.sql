-- is_limited(of_task, of_queue): whether a limit counts the jobs of this task and queue.
EXISTS (
    SELECT 1 FROM holdfast_limits AS limits
    WHERE limits.scope = 'all' OR (limits.scope = 'task' AND limits.name = of_task)
        OR (limits.scope = 'queue' AND limits.name = of_queue)
)
