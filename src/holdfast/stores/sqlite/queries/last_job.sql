-- Return the job that a schedule has started last.
SELECT last_job FROM holdfast_schedules WHERE name = :schedule AND last_job IS NOT NULL;
