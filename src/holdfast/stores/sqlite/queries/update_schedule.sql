-- Change a schedule that still has this version.
UPDATE holdfast_schedules SET
    plan = :plan, next_at = :next_at, paused_at = :paused_at, version = :next_version, change = :change
WHERE name = :schedule AND version = :version;
