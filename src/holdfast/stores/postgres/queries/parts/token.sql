-- token(entry, key, claim): whether a row is of one of :jobs, under its claim in :claims and its number in :numbers (ascending, each once).
entry.key = ANY(:jobs::uuid[]) AND entry.claim_number = (:numbers::bigint[])[width_bucket(entry.claim_number, :numbers::bigint[])]
    AND entry.key = (:jobs::uuid[])[width_bucket(entry.claim_number, :numbers::bigint[])]
    AND entry.claim_id = (:claims::uuid[])[claim]
