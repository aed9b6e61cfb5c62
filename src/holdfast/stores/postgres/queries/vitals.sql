-- Return the version of the schema, and for how many seconds the job that waits for longest to be pruned has waited, or its day.
-- :floor in microseconds, for which everything is remembered. A day goes an hour after the floor of its last job.
-- Members of workflows wait for each other: of the first thousand jobs those of none count.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
alone AS MATERIALIZED (
    SELECT min(late.delete_after) AS since FROM (
        SELECT delete_after, flow FROM holdfast.finished_other
        WHERE delete_after <= (SELECT now FROM clock)
        ORDER BY delete_after
        LIMIT 1000
    ) AS late
    WHERE late.flow IS NULL
),
days AS MATERIALIZED (
    SELECT min(to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD')) AS first FROM pg_inherits
    WHERE inhparent = 'holdfast.finished'::regclass AND inhrelid::regclass::text ~ '[0-9]{8}$'
)
SELECT
    (SELECT max(version) FROM holdfast.versions) AS version,
    greatest(
        extract(epoch FROM now - (SELECT since FROM alone)),
        extract(epoch FROM now - (SELECT (first + 1)::timestamp AT TIME ZONE 'UTC' FROM days)) - :floor::bigint / 1000000.0 - 3600,
        0
    )::double precision AS lag
FROM clock
