-- Locks a lease, so that of two claims of one that runs a job alone the later one sees what the earlier one took.
SELECT lease.id FROM holdfast.leases AS lease WHERE lease.id = $1 FOR NO KEY UPDATE;
