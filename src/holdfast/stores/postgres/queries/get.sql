-- Return one job with its newest attempts, in one snapshot: a row for each attempt, or one without.
-- :id; :most, how many attempts.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    jobs.*, -- include early_as((SELECT now FROM clock))
    AS early_as,
    attempts.job AS attempt_job, attempts.claim_id AS attempt_claim_id, attempts.claim_number AS attempt_claim_number,
    attempts.attempt AS attempt_attempt, attempts.worker AS attempt_worker, attempts.outcome AS attempt_outcome,
    attempts.error AS attempt_error, attempts.started_at AS attempt_started_at, attempts.ended_at AS attempt_ended_at,
    attempts.signal AS attempt_signal, attempts.stacks AS attempt_stacks, attempts.late_result AS attempt_late_result,
    attempts.points AS attempt_points, attempts.rescued_by AS attempt_rescued_by, attempts.late_at AS attempt_late_at
FROM holdfast.jobs
LEFT JOIN LATERAL (
    SELECT * FROM holdfast.attempts
    WHERE attempts.job = :id AND outcome IS NOT NULL
    ORDER BY claim_number DESC
    LIMIT :most
) AS attempts ON true
WHERE jobs.id = :id
ORDER BY attempts.claim_number
