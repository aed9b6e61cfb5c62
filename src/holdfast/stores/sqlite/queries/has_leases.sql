-- Return a row if a worker has ever started on this file, as far back as its leases are kept.
SELECT 1 FROM holdfast_leases LIMIT 1;
