-- Forget a schedule.
DELETE FROM holdfast_schedules WHERE name = :schedule;
