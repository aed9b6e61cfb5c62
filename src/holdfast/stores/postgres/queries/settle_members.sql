-- Settle first-try successes of members of locked workflows under their tokens, by settling.sql. Return the members that have ended.
-- :jobs, :claims, :numbers (ascending, each once), :results, :retentions; one claim, result or retention alone is that of all; :flows.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- settling

settled AS (SELECT id FROM gone)

SELECT id FROM settled;
