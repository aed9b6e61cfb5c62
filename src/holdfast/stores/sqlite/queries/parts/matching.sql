-- matching(): whether a job is one of those to list or to steer. Each parameter may be NULL.
(:state IS NULL OR :state = -- include shown()
)
    AND (:reason IS NULL OR reason = :reason)
    AND (:key IS NULL OR key = :key)
    AND (:older_than IS NULL OR coalesce(finished_at, created_at) <= :wall - :older_than)
    AND (:attempts_at_least IS NULL OR attempt >= :attempts_at_least)
    AND (:created_after IS NULL OR created_at >= :created_after)
    AND (:created_before IS NULL OR created_at < :created_before)
    AND (:available_after IS NULL OR available_at >= :available_after)
    AND (:available_before IS NULL OR available_at < :available_before)
    AND (:finished_after IS NULL OR finished_at >= :finished_after)
    AND (:finished_before IS NULL OR finished_at < :finished_before)
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(iif(json_valid(tags), tags, '[]')) WHERE value = :tag))
    AND (NOT :only_workflows OR id IN (
        SELECT known.flow FROM holdfast_members AS known WHERE known.is_gate OR known.job <> known.flow
    ))
