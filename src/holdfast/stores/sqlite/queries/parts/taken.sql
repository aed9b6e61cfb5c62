-- taken(): the values of a job that a claim takes.
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
