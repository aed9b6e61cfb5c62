-- Return what a check needs of Holdfast's tables, cheaply: the newest instant in them, what waits to be deleted, and partitions.
-- :floor in microseconds, for which everything is remembered; :slack, by how many it may be forgotten later;
-- :most, how many jobs are counted.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    extract(epoch FROM (
        SELECT max(instant) FROM (
            (SELECT received_at AS instant FROM holdfast.receipts ORDER BY received_at DESC LIMIT 1)
            UNION ALL
            SELECT max(renewed_at) FROM holdfast.leases
        ) AS newest
    ) - now)::double precision AS ahead,
    (
        SELECT count(*) FROM (
            SELECT FROM holdfast.finished_other WHERE delete_after <= now - :slack::bigint * interval '1 microsecond' LIMIT :most
        ) AS late
    ) AS forgettable,
    EXISTS (SELECT FROM holdfast.receipts WHERE received_at <= now - (:floor::bigint + :slack) * interval '1 microsecond') AS has_old_receipts,
    (SELECT last FROM holdfast.partition_days) - (now AT TIME ZONE 'UTC')::date AS days_ahead,
    (
        SELECT count(*) FROM pg_inherits
        WHERE inhparent = 'holdfast.finished'::regclass
            AND inhrelid::regclass::text ~ '[0-9]{8}$'
            AND right(inhrelid::regclass::text, 8) < to_char(now - interval '2 days', 'YYYYMMDD')
    ) AS past_partitions
FROM clock
