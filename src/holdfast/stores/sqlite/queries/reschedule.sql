-- Give waiting jobs a new due time.
UPDATE holdfast_jobs SET available_at = coalesce(:run_at, :wall + :delay)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND state = 'available';
