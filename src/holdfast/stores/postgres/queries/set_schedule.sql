-- Change a schedule that still has this version; :version 0: write one that does not exist yet. Return whether it was written, now or by
-- the first copy of this change.
-- :name, :plan, :next_at, :paused_at, :version, :next_version, :change.
WITH changed AS (
    UPDATE holdfast.schedules SET
        plan = :plan, next_at = :next_at, paused_at = :paused_at, version = :next_version::bigint, change = :change
    WHERE name = :name AND version = :version
    RETURNING version
),

added AS (
    INSERT INTO holdfast.schedules (name, plan, next_at, paused_at, version, change)
    SELECT :name, :plan, :next_at, :paused_at, :next_version::bigint, :change WHERE :version::bigint = 0
    ON CONFLICT (name) DO NOTHING
    RETURNING version
)

SELECT EXISTS (SELECT FROM changed) OR EXISTS (SELECT FROM added)
    OR EXISTS (SELECT FROM holdfast.schedules WHERE name = :name AND change = :change) AS is_written;
