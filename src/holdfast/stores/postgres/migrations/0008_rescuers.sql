-- Of an attempt: the supervisor that took the job from its worker, and when a late result or a late error came after that.
ALTER TABLE holdfast.attempts ADD COLUMN rescued_by text;
ALTER TABLE holdfast.attempts ADD COLUMN late_at timestamptz;
