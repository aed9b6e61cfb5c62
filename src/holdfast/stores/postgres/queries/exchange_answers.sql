-- What is left of these jobs and of the attempts under these tokens, in one snapshot: what a settle that moved nothing is told.
SELECT
    asked.place, attempts.sent_to, attempts.outcome, attempts.error AS attempt_error,
    found.state, found.claim, found.number, found.is_marked, found.is_stub, found.reason, found.error, found.result
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) WITH ORDINALITY AS asked (job, claim, number, place)
LEFT JOIN LATERAL (
    SELECT state, NULL::uuid AS claim, number, false AS is_marked, false AS is_stub, NULL AS reason, NULL AS error, NULL::bytea AS result
    FROM holdfast.pending WHERE id = asked.job
    UNION ALL
    SELECT state, claim, number, is_marked, false, NULL, NULL, NULL FROM holdfast.active WHERE id = asked.job
    UNION ALL
    SELECT state, claim, number, is_marked, is_stub, reason, error, result FROM holdfast.finished WHERE id = asked.job
    LIMIT 1
) AS found ON true
LEFT JOIN LATERAL (
    SELECT sent_to, outcome, error FROM holdfast.attempts
    WHERE job = asked.job AND number = asked.number AND claim = asked.claim
    LIMIT 1
) AS attempts ON true
ORDER BY asked.place;
