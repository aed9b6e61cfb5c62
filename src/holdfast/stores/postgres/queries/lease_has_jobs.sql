-- Whether a lease holds any job.
SELECT FROM holdfast.active AS job WHERE job.lease = $1 LIMIT 1;
