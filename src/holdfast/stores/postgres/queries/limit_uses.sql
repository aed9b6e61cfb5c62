-- Return what the limits count now, each row of one kind.
-- 'active': the number of active jobs of a task, queue and key. A scope: from when on its rate is unused, with a key that of the key.
-- 'now': the time. Times are microseconds of the epoch. Rates that are unused are left out.
WITH clock AS MATERIALIZED (SELECT (extract(epoch FROM now) * 1000000)::bigint AS now FROM clock_timestamp() AS now)
SELECT 'active' AS kind, task, queue AS name, key, count(*) AS number FROM holdfast.active WHERE is_counted GROUP BY task, queue, key
UNION ALL
SELECT scope, NULL, name, CASE WHEN is_key THEN key END, ready_at FROM holdfast.rates WHERE ready_at > (SELECT now FROM clock)
UNION ALL
SELECT 'now', NULL, NULL, NULL, now FROM clock;
