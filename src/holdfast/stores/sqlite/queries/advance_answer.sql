-- Return whether this move landed, and whether its job was stored.
SELECT change = :change, EXISTS (SELECT 1 FROM holdfast_receipts WHERE call = :id)
FROM holdfast_schedules WHERE name = :schedule;
