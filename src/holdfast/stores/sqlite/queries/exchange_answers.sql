-- Return the rows of these jobs and the attempts recorded under these tokens, in one snapshot, to answer settles that moved nothing.
SELECT place.value, attempts.requested_state, attempts.outcome, attempts.error, record.*
FROM json_each(:places) AS place
LEFT JOIN holdfast_record AS record ON record.id = substr(:items, 72 * place.value + 1, 16)
LEFT JOIN holdfast_attempts AS attempts
    ON attempts.job = substr(:items, 72 * place.value + 1, 16)
    AND attempts.claim_number = substr(:items, 72 * place.value + 33, 19) + 0
    AND attempts.claim_id = substr(:items, 72 * place.value + 17, 16);
