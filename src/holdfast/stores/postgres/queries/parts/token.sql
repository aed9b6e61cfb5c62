-- token(entry, key, claim): whether a row is of one of the jobs $1, under the claim in $2 and the number in $3 (ascending, each once).
entry.key = ANY($1::uuid[]) AND entry.claim_number = ($3::bigint[])[width_bucket(entry.claim_number, $3::bigint[])]
    AND entry.key = ($1::uuid[])[width_bucket(entry.claim_number, $3::bigint[])]
    AND entry.claim_id = ($2::uuid[])[claim]
