-- Waiting jobs end, active ones are marked, finished ones stay.
UPDATE jobs SET
    is_marked = state IN ('claimed', 'running'),
    reason = iif(state IN ('claimed', 'running'), reason, 'BY_OPERATOR'),
    finished_at = iif(state IN ('claimed', 'running'), NULL, :wall),
    state = iif(state IN ('claimed', 'running'), state, 'cancelled')
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND state NOT IN ('completed', 'failed', 'cancelled');
