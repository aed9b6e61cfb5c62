-- is_limited(of_task, of_queue): whether a limit counts the jobs of this task and queue.
EXISTS (
    SELECT FROM holdfast.limits AS limits
    WHERE limits.name = CASE limits.scope WHEN 'all' THEN '' WHEN 'task' THEN of_task ELSE of_queue END
)
