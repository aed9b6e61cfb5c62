-- Lock an isolated lease, so that of two claims the later one sees what the earlier one took.
-- :lease.
SELECT lease.id FROM holdfast.leases AS lease WHERE lease.id = :lease AND lease.is_isolated FOR NO KEY UPDATE;
