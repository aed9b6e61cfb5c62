-- Forget a schedule.
-- :name.
DELETE FROM holdfast.schedules WHERE name = :name RETURNING name;
