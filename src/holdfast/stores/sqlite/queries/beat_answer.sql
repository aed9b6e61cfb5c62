-- Return the leases that have not ended, the time since the previous beat and whether they drain.
-- Each comes once for each of its jobs with a requested cancellation, or once without.
SELECT leases.id, leases.renewed_at - leases.previous_renewal_at, leases.is_draining, jobs.id
FROM holdfast_leases AS leases
LEFT JOIN holdfast_jobs AS jobs ON jobs.lease = leases.id AND jobs.cancel_requested AND jobs.state IN ('claimed', 'running')
WHERE leases.id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places))
    AND leases.ended_at IS NULL
ORDER BY jobs.claim_number;
