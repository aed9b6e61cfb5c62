-- Whether a lease holds any job.
-- :lease.
SELECT FROM holdfast.active AS job WHERE job.lease = :lease LIMIT 1;
