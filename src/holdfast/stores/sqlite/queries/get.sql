-- Return one job with its newest attempts, in one snapshot: a row for each attempt, or one without.
SELECT
    -- include shown()
    AS now, record.*,
    attempts.claim_id, attempts.claim_number, attempts.attempt, attempts.worker, attempts.outcome, attempts.error,
    attempts.started_at, attempts.ended_at, attempts.signal, attempts.stacks, attempts.late_result, attempts.points,
    attempts.rescued_by, attempts.late_at
FROM holdfast_record AS record
LEFT JOIN holdfast_attempts AS attempts ON attempts.job = record.id AND attempts.outcome IS NOT NULL
    AND attempts.claim_number >= coalesce((
        SELECT newer.claim_number FROM holdfast_attempts AS newer
        WHERE newer.job = :job AND newer.outcome IS NOT NULL
        ORDER BY newer.claim_number DESC LIMIT 1 OFFSET :most - 1
    ), 0)
WHERE record.id = :job
ORDER BY attempts.claim_number;
