-- Settle first-try successes under their tokens, by settling.sql, then claim the requested jobs, all in one write. settle.sql is for
-- all other transitions. A claim without any uses nothing_settled.sql instead of settling.sql.
--
-- :jobs, :claims, :numbers (ascending, each once), :results, :retentions; one claim, result or retention alone is that of all.
-- :lease, :claim. :is_running: whether the claimed jobs start at once. `:room`: at most how many jobs.
-- :tasks (ascending by bytes), :policies, :progress_within, :timeouts. :normal and :isolated: which kinds of jobs.
-- :is_lone: whether the lease may be an isolated one. :voids: the number that the lease must have, NULL: any. due_….sql states where to look, and declares the parameters of that search.
-- Nothing that may be large is joined, because plans are made once, often while all tables are empty. Rows are found by = ANY(array),
-- and the parameters that belong to them by width_bucket(), which is a binary search.
-- Jobs are taken by their ctid, so that no plan can take more than were locked. Return the claimed jobs, each with the number of
-- settled ones, whether other ranges are left to look at, and whether there are limits; without a claimed job, exchange_answers.sql returns the rest.
-- Lock order: active jobs, their keys; the lease, waiting jobs.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- settling

-- include owner(),

-- include taken()

-- include claimed(),
    -- others
    AS has_others,
    EXISTS (SELECT FROM holdfast.limits) AS has_limits;
