-- matching(): whether a job of the view ``jobs`` is one of those to list or to steer; ``clock`` has the time.
-- It searches for the text of a tag before it parses JSON, so that a row with invalid JSON does not fail the query. :text is in lower
-- case, a part of a task's name or of what the JSON of an error has before its traceback.
(:places::text[] IS NULL OR place = ANY(:places))
    AND (:stored::text[] IS NULL OR state = ANY(:stored))
    AND (:states::text[] IS NULL OR coalesce(-- include early_as((SELECT now FROM clock))
    , state) = ANY(:states))
    AND (:tasks::text[] IS NULL OR task = ANY(:tasks))
    AND (:queues::text[] IS NULL OR queue = ANY(:queues))
    AND (:reasons::text[] IS NULL OR reason = ANY(:reasons))
    AND (:workers::text[] IS NULL OR worker = ANY(:workers))
    AND (:workflow::uuid IS NULL OR flow = :workflow)
    AND (:is_rescued::boolean IS NULL OR (rescue IS NOT NULL) = :is_rescued)
    AND (:up_to::timestamptz IS NULL OR greatest(created_at, finished_at) <= :up_to)
    AND (
        :text::text IS NULL
        OR strpos(lower(task COLLATE "C"), :text) > 0
        OR strpos(lower(replace(substr(split_part(error, '","traceback":"', 1), 10), '","message":"', ': ') COLLATE "C"), :text) > 0
    )
    AND (:key::text IS NULL OR key = :key)
    AND (:older_than::bigint IS NULL OR coalesce(finished_at, created_at) <= (SELECT now FROM clock) - :older_than * interval '1 us')
    AND (:attempts_at_least::integer IS NULL OR attempt >= :attempts_at_least)
    AND (:created_after::timestamptz IS NULL OR created_at >= :created_after)
    AND (:created_before::timestamptz IS NULL OR created_at < :created_before)
    AND (:available_after::timestamptz IS NULL OR available_at >= :available_after)
    AND (:available_before::timestamptz IS NULL OR available_at < :available_before)
    AND (:finished_after::timestamptz IS NULL OR finished_at >= :finished_after)
    AND (:finished_before::timestamptz IS NULL OR finished_at < :finished_before)
    AND (:tags::text[] IS NULL OR EXISTS (
        SELECT 1 FROM unnest(:tags) AS wanted
        WHERE CASE WHEN position(wanted IN tags) > 0 THEN wanted IN (SELECT tag::text FROM json_array_elements(tags::json) AS tag) END
    ))
    AND (
        :schedule_tag::text IS NULL
        OR CASE
            WHEN position(:schedule_tag IN tags) > 0 THEN :schedule_tag IN (SELECT tag::text FROM json_array_elements(tags::json) AS tag)
        END
    )
    AND ( -- exactly as the index of error keys has it
        :error_key::text IS NULL
        OR CASE WHEN right(error, 25) LIKE '"key":"%' THEN left(right(error, 18), 16) END COLLATE "C" = :error_key
    )
    AND (NOT :only_workflows::boolean OR id IN (
        SELECT known.flow FROM holdfast.members AS known WHERE known.is_gate OR known.job <> known.flow
    ))
