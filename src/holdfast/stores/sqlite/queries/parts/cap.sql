-- cap(of): how many jobs of a range all limits together allow.
coalesce((
    SELECT min(caps.room) FROM caps
    WHERE (
            caps.scope = 'all' OR (caps.scope = 'task' AND caps.name = of.task)
            OR (caps.scope = 'queue' AND caps.name = of.next_queue)
        ) AND (caps.key IS NULL OR caps.key = of.next_key)
), 0)
