-- matching(): whether a job of the view ``jobs`` is one of those to list or to steer; ``clock`` has the time.
-- It searches for the text of a tag before it parses JSON, so that a row with invalid JSON does not fail the query.
(
    (:state::text IS NULL OR state = :state)
    AND (:is_early::boolean IS NULL OR (available_at > (SELECT now FROM clock)) = :is_early)
    AND (:is_blocked::boolean IS NULL OR (awaits IS NOT NULL) = :is_blocked)
    OR (:is_blocked AND state = 'blocked')
)
    AND (:place::text IS NULL OR place = :place)
    AND (:task::text IS NULL OR task = :task)
    AND (:queue::text IS NULL OR queue = :queue)
    AND (:reason::text IS NULL OR reason = :reason)
    AND (:key::text IS NULL OR key = :key)
    AND (:older_than::bigint IS NULL OR coalesce(finished_at, created_at) <= (SELECT now FROM clock) - :older_than * interval '1 us')
    AND (:attempts_at_least::integer IS NULL OR attempt >= :attempts_at_least)
    AND (:created_after::timestamptz IS NULL OR created_at >= :created_after)
    AND (:created_before::timestamptz IS NULL OR created_at < :created_before)
    AND (:available_after::timestamptz IS NULL OR available_at >= :available_after)
    AND (:available_before::timestamptz IS NULL OR available_at < :available_before)
    AND (:finished_after::timestamptz IS NULL OR finished_at >= :finished_after)
    AND (:finished_before::timestamptz IS NULL OR finished_at < :finished_before)
    AND (
        :tag::text IS NULL
        OR CASE WHEN position(:tag IN tags) > 0 THEN :tag IN (SELECT tag::text FROM json_array_elements(tags::json) AS tag) END
    )
    AND (:error_key::text IS NULL OR -- include error_key()
        = :error_key)
    AND (NOT :only_workflows::boolean OR id IN (
        SELECT known.flow FROM holdfast.members AS known WHERE known.is_gate OR known.job <> known.flow
    ))
