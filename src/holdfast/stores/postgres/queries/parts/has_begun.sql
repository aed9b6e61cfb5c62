-- has_begun(job): whether a claimed job has started with the others of its lease.
(
    job.state = 'claimed' AND job.claim_number <= coalesce((
        SELECT lease_starts.started FROM holdfast.lease_starts WHERE lease_starts.lease = job.lease
    ), 0)
)
