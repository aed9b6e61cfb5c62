-- claimed(): move the taken jobs to the lease; return each with the number of settled ones, and with results.sql or NULL.
INSERT INTO holdfast.active (
    id, claim_id, claim_number, lease, worker, task, queue, key, priority, state, attempt, failures, crashes, created_at, available_at,
    claimed_at, started_at, expires_at, unique_key, tags, extra, policy, progress_within, timeout, stage, fraction, message,
    progress_at, error, rescue, hook_due_at, is_counted, checkpoint, payload, flow
)
SELECT
    id, :claim, nextval('holdfast.claim_numbers'), :lease, (SELECT worker FROM owner), task, queue, key, priority,
    CASE WHEN :is_running THEN 'running' ELSE 'claimed' END, attempt + :is_running::integer, failures, crashes, created_at,
    available_at, (SELECT now FROM clock), CASE WHEN :is_running THEN (SELECT now FROM clock) END, expires_at, unique_key, tags, extra,
    (:policies::text[])[known], (:progress_within::double precision[])[known], (:timeouts::double precision[])[known],
    stage, fraction, message, progress_at, error, rescue, hook_due_at,
    -- counted
    AS is_counted, checkpoint, payload, flow
FROM (
    SELECT *, width_bucket(task COLLATE "C", :tasks::text[]) AS known FROM taken ORDER BY priority, available_at, id
) AS taken
RETURNING
    id, claim_number, task, queue, key, attempt, failures, crashes, checkpoint, rescue, hook_due_at,
    CASE
        WHEN payload IS NULL THEN (SELECT payloads.payload FROM holdfast.payloads AS payloads WHERE payloads.job = id)
        ELSE payload
    END AS payload, priority, extra, flow,
    CASE WHEN flow IS NOT NULL THEN (SELECT members.inputs FROM holdfast.members AS members WHERE members.job = id) END AS inputs,
    -- results
    AS results,
    date_part('epoch', claimed_at - available_at) AS waited, available_at, (SELECT count(*) FROM gone) AS settled
