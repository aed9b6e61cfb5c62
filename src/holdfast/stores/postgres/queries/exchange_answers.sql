-- Return what is left of these jobs and of the attempts under these tokens, in one snapshot, to answer settles that moved nothing.
-- :jobs, :claims, :numbers.
SELECT
    asked.place, attempts.requested_state, attempts.outcome, attempts.error AS attempt_error,
    found.state, found.claim_id, found.claim_number, found.cancel_requested, found.is_stub, found.reason, found.error,
    found.result, found.failures, found.crashes, found.flow
FROM unnest(:jobs::uuid[], :claims::uuid[], :numbers::bigint[]) WITH ORDINALITY AS asked (job, claim_id, claim_number, place)
LEFT JOIN LATERAL (
    SELECT state, NULL::uuid AS claim_id, claim_number, false AS cancel_requested, false AS is_stub, NULL AS reason,
    NULL AS error, NULL::bytea AS result, failures, crashes, flow
    FROM holdfast.pending WHERE id = asked.job
    UNION ALL
    SELECT state, claim_id, claim_number, cancel_requested, false, NULL, NULL, NULL, failures, crashes, flow
    FROM holdfast.active WHERE id = asked.job
    UNION ALL
    SELECT state, claim_id, claim_number, cancel_requested, is_stub, reason, error,
    result, failures, crashes, flow FROM holdfast.finished WHERE id = asked.job
    LIMIT 1
) AS found ON true
LEFT JOIN LATERAL (
    SELECT requested_state, outcome, error FROM holdfast.attempts
    WHERE job = asked.job AND claim_number = asked.claim_number AND claim_id = asked.claim_id
    LIMIT 1
) AS attempts ON true
ORDER BY asked.place;
