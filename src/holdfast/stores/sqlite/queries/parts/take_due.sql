-- take_due(): take the jobs of holdfast_due.
--
-- Only a claim that takes jobs writes the sequence, so that a poll that finds nothing costs no fsync.
UPDATE holdfast_jobs SET
    state = iif(due.rank <= NEW.running, 'running', 'claimed'),
    attempt = attempt + (due.rank <= NEW.running),
    claim_number = due.last_number + due.rank,
    claim_id = NEW.claim_id,
    lease = NEW.lease,
    worker = due.worker,
    policy = due.policy,
    claimed_at = NEW.wall,
    started_at = iif(due.rank <= NEW.running, NEW.wall, NULL),
    started_mono = iif(due.is_limited, NEW.monotonic, NULL)
FROM holdfast_due AS due
WHERE holdfast_jobs.rowid = due.place;

UPDATE holdfast_sequence SET claim_number = due.last_number + due.rank
FROM (SELECT last_number, rank FROM holdfast_due ORDER BY rank DESC LIMIT 1) AS due
