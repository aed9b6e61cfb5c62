-- Return a row if a lease has any active job.
-- :lease.
SELECT FROM holdfast.active AS job WHERE job.lease = :lease LIMIT 1;
