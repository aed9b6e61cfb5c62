-- Write a schedule that does not exist yet.
INSERT INTO holdfast_schedules (name, plan, next_at, paused_at, version, change)
VALUES (:schedule, :plan, :next_at, :paused_at, :next_version, :change)
ON CONFLICT (name) DO NOTHING;
