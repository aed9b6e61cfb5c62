-- Settle first-try successes under their tokens, by settling.sql; a claim within limits may follow in the same transaction. Return how many.
-- :jobs, :claims, :numbers (ascending, each once), :results, :retentions; one claim, result or retention alone is that of all.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- settling

settled AS (SELECT FROM gone)

SELECT count(*) AS settled FROM settled;
