-- claimable(job, now): whether a claim may take a job that waits; which kinds of tries it takes.
CASE
    WHEN job.claimable_until IS NULL THEN :normal
    WHEN job.claimable_until = '-infinity' THEN :isolated
    ELSE :normal AND job.claimable_until > now
END
