-- Mark the active jobs that limits count, and no others: a claim that was under way when a limit was set may have left one out. A job that
-- another session has locked is left for the next time. Return whether there are limits.
-- :is_all: whether to look for jobs to unmark, too.
WITH wrong AS MATERIALIZED (
    SELECT active.ctid AS place FROM holdfast.active AS active
    WHERE EXISTS (SELECT FROM holdfast.limits) AND NOT active.is_counted AND -- include is_limited(active.task, active.queue)
    FOR UPDATE SKIP LOCKED
),

marked AS (
    UPDATE holdfast.active SET is_counted = true WHERE ctid = ANY(ARRAY(SELECT place FROM wrong))
),

free AS MATERIALIZED (
    SELECT active.ctid AS place FROM holdfast.active AS active
    WHERE :is_all AND active.is_counted AND NOT -- include is_limited(active.task, active.queue)
    FOR UPDATE SKIP LOCKED
),

unmarked AS (
    UPDATE holdfast.active SET is_counted = false WHERE ctid = ANY(ARRAY(SELECT place FROM free))
)

SELECT EXISTS (SELECT FROM holdfast.limits) AS has_limits;
