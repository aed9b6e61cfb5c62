-- Settle first-try successes under their tokens, by settling.sql, then claim what is asked, all in one write; settle.sql is for
-- all others, and who has none to settle puts nothing_settled.sql in the place of it.
--
-- $1–$5: jobs, claims, numbers (ascending, each once), results, retentions; one claim, result or retention alone is that of
-- all. $6 lease, $7 claim, $8 whether the jobs are born running, $9 how many at most, $10–$13 known tasks (ascending by bytes)
-- with their policies and limits, $14 and $15 which kinds of tries, $16 whether the lease may be one that runs a job alone;
-- where to look is said from $17 on, in due_….sql.
-- Nothing that may be large is joined, because plans are made once, often while all tables are empty: rows are found by
-- = ANY(array), and what belongs to them in the parameters by width_bucket(), which is a binary search.
-- Jobs are taken by their place, so that no plan can take more than were locked. Answers the jobs claimed, with each how many
-- were settled; without any, exchange_answers.sql knows.
-- Lock order: active jobs, their keys; the lease, waiting jobs.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- settling

-- Locked: nobody ends it before this claim is there to be found. While another session has it locked it claims nothing, and what
-- it has finished is settled all the same.
owner AS MATERIALIZED (
    SELECT lease.worker
    FROM holdfast.leases AS lease
    WHERE lease.id = $6 AND lease.ended_at IS NULL AND lease.expires_at >= (SELECT now FROM clock) AND (NOT lease.is_isolated OR $16)
    FOR KEY SHARE SKIP LOCKED
),

taken AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        -- due
    ))
    RETURNING
        id, task, queue, priority, available_at, attempt, failures, crashes, created_at, expires_at, unique_key, tags, stage,
        fraction, message, progress_at, error, rescue, hook_due_at, checkpoint, payload
)

INSERT INTO holdfast.active (
    id, claim_id, claim_number, lease, worker, task, queue, priority, state, attempt, failures, crashes, created_at, available_at,
    claimed_at, started_at, expires_at, unique_key, tags, policy, progress_within, timeout, stage, fraction, message,
    progress_at, error, rescue, hook_due_at, checkpoint, payload
)
SELECT
    id, $7, nextval('holdfast.claim_numbers'), $6, (SELECT worker FROM owner), task, queue, priority,
    CASE WHEN $8 THEN 'running' ELSE 'claimed' END, attempt + $8::integer, failures, crashes, created_at, available_at,
    (SELECT now FROM clock), CASE WHEN $8 THEN (SELECT now FROM clock) END, expires_at, unique_key, tags,
    ($11::text[])[known], ($12::double precision[])[known], ($13::double precision[])[known],
    stage, fraction, message, progress_at, error, rescue, hook_due_at, checkpoint, payload
FROM (
    SELECT *, width_bucket(task COLLATE "C", $10::text[]) AS known FROM taken ORDER BY priority, available_at, id
) AS taken
RETURNING
    id, claim_number, task, queue, attempt, failures, crashes, checkpoint, rescue, hook_due_at,
    CASE
        WHEN payload IS NULL THEN (SELECT payloads.payload FROM holdfast.payloads AS payloads WHERE payloads.job = id)
        ELSE payload
    END AS payload, priority, available_at, (SELECT count(*) FROM gone) AS settled;
