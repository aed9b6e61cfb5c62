-- Return whether this is the schedule's latest change.
SELECT 1 FROM holdfast_schedules WHERE name = :schedule AND change = :change;
