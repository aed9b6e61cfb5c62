-- Return the job of a schedule's last tick.
-- :name.
SELECT last_job FROM holdfast.schedules WHERE name = :name
