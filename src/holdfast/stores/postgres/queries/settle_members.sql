-- Settle first-try successes of members of locked workflows under their tokens, by settling.sql. Return the members that have ended, and what
-- they lead to, if all belong to one workflow: then it does not matter which of them is the parent of a child.
-- :jobs, :claims, :numbers (ascending, each once), :results, :retentions; one claim, result or retention alone is that of all; :flows.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- settling

settled AS (SELECT id FROM gone)

SELECT (SELECT array_agg(id) FROM settled) AS settled, (
    -- include links(ARRAY(SELECT id FROM settled), 1)
) AS links;
