-- cancelled(wall): the values of a job that is cancelled while it waits, or asked to stop while it runs.
cancel_requested = state IN ('claimed', 'running'),
reason = iif(state IN ('claimed', 'running'), reason, 'BY_OPERATOR'),
finished_at = iif(state IN ('claimed', 'running'), NULL, wall),
delete_after = iif(state IN ('claimed', 'running'), NULL, wall + CAST(1e6 * max(
    coalesce(iif(json_valid(policy), json_extract(policy, '$.retention'), NULL), 604800),
    iif(hook_due_at IS NULL, 0, 604800)
) AS INTEGER)),
state = iif(state IN ('claimed', 'running'), state, 'cancelled')
