-- Settle first-try successes under their tokens, by settling.sql, then claim the requested jobs, all in one write. settle.sql is for
-- all other transitions. A claim without any uses nothing_settled.sql instead of settling.sql.
--
-- :jobs, :claims, :numbers (ascending, each once), :results, :retentions; one claim, result or retention alone is that of all.
-- :lease, :claim. :is_running: whether the claimed jobs start at once. `:room`: at most how many jobs.
-- :tasks (ascending by bytes), :policies, :progress_within, :timeouts. :normal and :isolated: which kinds of jobs.
-- :is_lone: whether the lease may be an isolated one. due_….sql states where to look, and declares the parameters of that search.
-- Nothing that may be large is joined, because plans are made once, often while all tables are empty. Rows are found by = ANY(array),
-- and the parameters that belong to them by width_bucket(), which is a binary search.
-- Jobs are taken by their ctid, so that no plan can take more than were locked. Return the claimed jobs, each with the number of
-- settled ones; without a claimed job, exchange_answers.sql returns the rest.
-- Lock order: active jobs, their keys; the lease, waiting jobs.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- settling

-- Lock the lease: it must not end before this claim is visible. While another session has the lease locked, this claims nothing, but
-- still settles.
owner AS MATERIALIZED (
    SELECT lease.worker
    FROM holdfast.leases AS lease
    WHERE lease.id = :lease AND lease.ended_at IS NULL AND lease.expires_at >= (SELECT now FROM clock)
        AND (NOT lease.is_isolated OR :is_lone)
    FOR KEY SHARE SKIP LOCKED
),

taken AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        -- due
    ))
    RETURNING
        id, task, queue, key, priority, available_at, attempt, failures, crashes, created_at, expires_at, unique_key, tags, extra, stage,
        fraction, message, progress_at, error, rescue, hook_due_at, checkpoint, payload
)

INSERT INTO holdfast.active (
    id, claim_id, claim_number, lease, worker, task, queue, key, priority, state, attempt, failures, crashes, created_at, available_at,
    claimed_at, started_at, expires_at, unique_key, tags, extra, policy, progress_within, timeout, stage, fraction, message,
    progress_at, error, rescue, hook_due_at, checkpoint, payload
)
SELECT
    id, :claim, nextval('holdfast.claim_numbers'), :lease, (SELECT worker FROM owner), task, queue, key, priority,
    CASE WHEN :is_running THEN 'running' ELSE 'claimed' END, attempt + :is_running::integer, failures, crashes, created_at,
    available_at, (SELECT now FROM clock), CASE WHEN :is_running THEN (SELECT now FROM clock) END, expires_at, unique_key, tags, extra,
    (:policies::text[])[known], (:progress_within::double precision[])[known], (:timeouts::double precision[])[known],
    stage, fraction, message, progress_at, error, rescue, hook_due_at, checkpoint, payload
FROM (
    SELECT *, width_bucket(task COLLATE "C", :tasks::text[]) AS known FROM taken ORDER BY priority, available_at, id
) AS taken
RETURNING
    id, claim_number, task, queue, key, attempt, failures, crashes, checkpoint, rescue, hook_due_at,
    CASE
        WHEN payload IS NULL THEN (SELECT payloads.payload FROM holdfast.payloads AS payloads WHERE payloads.job = id)
        ELSE payload
    END AS payload, priority, extra, available_at, (SELECT count(*) FROM gone) AS settled;
