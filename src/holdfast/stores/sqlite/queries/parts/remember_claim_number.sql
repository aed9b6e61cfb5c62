-- remember_claim_number(): only a claim writes this page, so that a poll that finds nothing costs no fsync.
UPDATE holdfast_sequence SET claim_number = (
    SELECT max(claim_number) FROM holdfast_jobs WHERE lease = NEW.lease AND state IN ('claimed', 'running')
)
WHERE claim_number < (
    SELECT max(claim_number) FROM holdfast_jobs WHERE lease = NEW.lease AND state IN ('claimed', 'running')
)
