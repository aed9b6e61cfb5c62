-- One job with its attempts, in one snapshot: a row for each attempt, or one without.
SELECT
    iif(record.state = 'available' AND record.available_at > :wall, 'scheduled', record.state), record.*,
    attempts.claim, attempts.number, attempts.attempt, attempts.worker, attempts.outcome, attempts.error,
    attempts.started_at, attempts.ended_at, attempts.signal, attempts.stacks, attempts.late_result
FROM holdfast_record AS record
LEFT JOIN holdfast_attempts AS attempts ON attempts.job = record.id AND attempts.outcome IS NOT NULL
WHERE record.id = :job
ORDER BY attempts.number;
