-- Of an attempt: the supervisor that took the job from its worker, and when a late result or a late error came after that.
ALTER TABLE main.holdfast_attempts ADD COLUMN rescued_by TEXT;
ALTER TABLE main.holdfast_attempts ADD COLUMN late_at INTEGER;
