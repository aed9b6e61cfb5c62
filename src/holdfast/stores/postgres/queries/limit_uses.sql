-- Return what the limits count now, by kind: 'active', the number of active jobs of each task, queue and key; a scope, from when on its
-- rate is unused, and with a key that of the key, in microseconds of the epoch; and 'now', the time. Rates that are unused are left out.
WITH clock AS MATERIALIZED (SELECT (extract(epoch FROM now) * 1000000)::bigint AS now FROM clock_timestamp() AS now)
SELECT 'active' AS kind, task, queue AS name, key, count(*) AS number FROM holdfast.active WHERE is_counted GROUP BY task, queue, key
UNION ALL
SELECT scope, NULL, name, CASE WHEN is_key THEN key END, ready_at FROM holdfast.rates WHERE ready_at > (SELECT now FROM clock)
UNION ALL
SELECT 'now', NULL, NULL, NULL, now FROM clock;
