-- matching(): whether a job is one of those to list or to steer. Each parameter may be NULL.
-- :state, :reason, :task, :queue, :tag and :worker are lists. :text is in lower case, a part of a task's name or of what the JSON of an
-- error has before its traceback.
(:state IS NULL OR -- include shown()
    IN (SELECT value FROM json_each(:state)))
    AND (:reason IS NULL OR reason IN (SELECT value FROM json_each(:reason)))
    AND (:key IS NULL OR key = :key)
    AND (:older_than IS NULL OR coalesce(finished_at, created_at) <= :wall - :older_than)
    AND (:attempts_at_least IS NULL OR attempt >= :attempts_at_least)
    AND (:created_after IS NULL OR created_at >= :created_after)
    AND (:created_before IS NULL OR created_at < :created_before)
    AND (:available_after IS NULL OR available_at >= :available_after)
    AND (:available_before IS NULL OR available_at < :available_before)
    AND (:finished_after IS NULL OR finished_at >= :finished_after)
    AND (:finished_before IS NULL OR finished_at < :finished_before)
    AND (:task IS NULL OR task IN (SELECT value FROM json_each(:task)))
    AND (:queue IS NULL OR queue IN (SELECT value FROM json_each(:queue)))
    AND (:worker IS NULL OR worker IN (SELECT value FROM json_each(:worker)))
    AND (:workflow IS NULL OR flow = :workflow)
    AND (:is_rescued IS NULL OR (rescue IS NOT NULL) = :is_rescued)
    AND (:up_to IS NULL OR max(created_at, coalesce(finished_at, created_at)) <= :up_to)
    AND (:text IS NULL OR instr(lower(task), :text) OR instr(lower(
        replace(substr(error, 10, instr(error, '","traceback":"') - 10), '","message":"', ': ')
    ), :text))
    AND (:tag IS NULL OR EXISTS (
        SELECT 1 FROM json_each(iif(json_valid(tags), tags, '[]')) WHERE value IN (SELECT value FROM json_each(:tag))
    ))
    AND (:schedule_tag IS NULL OR EXISTS (
        SELECT 1 FROM json_each(iif(json_valid(tags), tags, '[]')) WHERE value = :schedule_tag
    ))
    AND (:error_key IS NULL OR error_key = :error_key)
    AND (NOT :only_workflows OR id IN (
        SELECT known.flow FROM holdfast_members AS known WHERE known.is_gate OR known.job <> known.flow
    ))
