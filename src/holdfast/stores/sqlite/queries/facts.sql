-- Return what a check needs, cheaply: the newest instants in the file, and what waits to be pruned.
SELECT
    (
        SELECT max(instant) FROM (
            SELECT received_at AS instant FROM (SELECT received_at FROM holdfast_receipts ORDER BY place DESC LIMIT 1)
            UNION ALL
            SELECT max(created_at, coalesce(finished_at, 0))
            FROM (SELECT created_at, finished_at FROM holdfast_jobs ORDER BY rowid DESC LIMIT 100)
            UNION ALL
            SELECT opened_at FROM holdfast_leases
        )
    ) - :wall,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM holdfast_jobs WHERE delete_after IS NOT NULL AND delete_after <= :wall - :lag LIMIT :most
        )
    ),
    (SELECT received_at <= :wall - :floor - :lag FROM holdfast_receipts ORDER BY place LIMIT 1);
