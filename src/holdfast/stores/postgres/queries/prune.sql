-- Delete finished jobs one by one, with all their records, and old receipts, leases, snoozes, beats and unused rates. Return how many of
-- each but the last, the current day, the last day whose partition is not needed any more, and the last day that has one. Return also the
-- roots of workflows whose retention is over: prune_flows.sql deletes them with their members.
-- :limit of each; :floor in microseconds, for which everything is remembered at least.
-- A job whose retention is shorter than the floor is pruned twice: its row is reduced to a stub first. A job that another session has
-- locked, or one of its rows, is left for the next pass: this statement waits for no lock.
WITH clock AS MATERIALIZED (
    SELECT now, now - :floor::bigint * interval '1 microsecond' AS floor FROM clock_timestamp() AS now
),
over AS MATERIALIZED (
    SELECT id, ctid AS place FROM holdfast.finished_other
    WHERE delete_after <= (SELECT now FROM clock) AND finished_at <= (SELECT floor FROM clock) AND flow IS NULL
    ORDER BY delete_after, id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
brief_retention AS MATERIALIZED (
    SELECT id, ctid AS place FROM holdfast.finished_other
    WHERE delete_after <= (SELECT now FROM clock) AND delete_after > (SELECT floor FROM clock)
        AND finished_at > (SELECT floor FROM clock) AND flow IS NULL
    ORDER BY delete_after, id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
chosen AS MATERIALIZED (
    SELECT id FROM over
    UNION ALL
    SELECT id FROM brief_retention
),
doomed AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.payloads WHERE job = ANY (ARRAY(SELECT id FROM chosen))
    UNION ALL
    SELECT job, tableoid, ctid FROM holdfast.attempts_other WHERE job = ANY (ARRAY(SELECT id FROM over))
    UNION ALL
    SELECT job, tableoid, ctid FROM holdfast.steps WHERE job = ANY (ARRAY(SELECT id FROM over))
    UNION ALL
    SELECT job, tableoid, ctid FROM holdfast.signals WHERE job = ANY (ARRAY(SELECT id FROM over))
),
free_payloads AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.payloads WHERE job = ANY (ARRAY(SELECT id FROM chosen))
    FOR UPDATE SKIP LOCKED
),
free_attempts AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.attempts_other WHERE job = ANY (ARRAY(SELECT id FROM over))
    FOR UPDATE SKIP LOCKED
),
free_steps AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.steps WHERE job = ANY (ARRAY(SELECT id FROM over))
    FOR UPDATE SKIP LOCKED
),
free_signals AS MATERIALIZED (
    SELECT job, tableoid AS origin, ctid AS place FROM holdfast.signals WHERE job = ANY (ARRAY(SELECT id FROM over))
    FOR UPDATE SKIP LOCKED
),
in_use AS MATERIALIZED (
    SELECT job FROM (
        SELECT * FROM doomed
        EXCEPT (
            SELECT * FROM free_payloads
            UNION ALL
            SELECT * FROM free_attempts
            UNION ALL
            SELECT * FROM free_steps
            UNION ALL
            SELECT * FROM free_signals
        )
    ) AS locked
),
gone AS MATERIALIZED (
    SELECT id, place FROM over WHERE id <> ALL (ARRAY(SELECT job FROM in_use))
),
worn AS MATERIALIZED (
    SELECT id, place FROM brief_retention WHERE id <> ALL (ARRAY(SELECT job FROM in_use))
),
brief AS MATERIALIZED (
    SELECT job, claim_number, claim_id FROM holdfast.attempts
    WHERE requested_state = 'available' AND (outcome IS NULL OR outcome IN ('released', 'snoozed'))
        AND ended_at <= (SELECT floor FROM clock)
        AND job <> ALL (ARRAY(SELECT id FROM gone))
    ORDER BY ended_at, job, claim_number
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
old AS MATERIALIZED (
    SELECT ctid AS place FROM holdfast.receipts
    WHERE received_at <= (SELECT floor FROM clock)
    ORDER BY received_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
idle AS MATERIALIZED (
    SELECT id, ctid AS place FROM holdfast.leases
    WHERE ended_at <= (SELECT floor FROM clock)
        AND NOT EXISTS (SELECT FROM holdfast.active WHERE active.lease = leases.id)
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
idle_starts AS MATERIALIZED (
    SELECT lease, ctid AS place FROM holdfast.lease_starts WHERE lease = ANY (ARRAY(SELECT id FROM idle))
    FOR UPDATE SKIP LOCKED
),
outdated AS MATERIALIZED (
    SELECT ctid AS place FROM holdfast.beats
    WHERE delete_after <= (SELECT now FROM clock)
    ORDER BY delete_after
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
unused AS MATERIALIZED (
    SELECT ctid AS place FROM holdfast.rates
    WHERE ready_at <= (SELECT (extract(epoch FROM now) * 1000000)::bigint FROM clock)
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
past_actions AS MATERIALIZED (
    SELECT ctid AS place FROM holdfast.audits
    WHERE at <= (SELECT now - interval '90 days' FROM clock) -- AUDIT_RETENTION
    ORDER BY at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
past_keys AS MATERIALIZED (
    SELECT ctid AS place FROM holdfast.unique_keys AS keys
    WHERE keys.until <= (SELECT now FROM clock)
        AND NOT EXISTS (SELECT FROM holdfast.pending AS waiting WHERE waiting.id = keys.job)
        AND NOT EXISTS (SELECT FROM holdfast.active AS running WHERE running.id = keys.job)
    ORDER BY keys.until
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
freed AS (
    DELETE FROM holdfast.unique_keys WHERE ctid = ANY (ARRAY(SELECT place FROM past_keys))
),
jobs AS (
    DELETE FROM holdfast.finished_other WHERE ctid = ANY (ARRAY(SELECT place FROM gone)) RETURNING id
),
stubs AS (
    UPDATE holdfast.finished_other SET
        payload = 'null', result = NULL, error = NULL, checkpoint = NULL, message = NULL, points = NULL, is_stub = true,
        delete_after = finished_at + :floor::bigint * interval '1 microsecond'
    WHERE ctid = ANY (ARRAY(SELECT place FROM worn))
    RETURNING id
),
-- Only payloads of rows that were moved: a row that changed before it was locked is listed, but stays.
payloads AS (
    DELETE FROM holdfast.payloads USING (SELECT id FROM jobs UNION ALL SELECT id FROM stubs) AS moved WHERE job = moved.id
),
attempts_of_jobs AS (
    DELETE FROM holdfast.attempts_other USING jobs WHERE job = jobs.id
),
steps_of_jobs AS (
    DELETE FROM holdfast.steps USING jobs WHERE job = jobs.id
),
signals_of_jobs AS (
    DELETE FROM holdfast.signals USING jobs WHERE job = jobs.id
),
attempts AS (
    DELETE FROM holdfast.attempts USING brief
    WHERE attempts.job = brief.job AND attempts.claim_number = brief.claim_number AND attempts.claim_id = brief.claim_id
    RETURNING true
),
receipts AS (
    DELETE FROM holdfast.receipts WHERE ctid = ANY (ARRAY(SELECT place FROM old)) RETURNING true
),
leases AS (
    DELETE FROM holdfast.leases WHERE ctid = ANY (ARRAY(
        SELECT idle.place FROM idle
        WHERE NOT EXISTS (SELECT FROM holdfast.lease_starts AS known WHERE known.lease = idle.id)
            OR idle.id = ANY (ARRAY(SELECT lease FROM idle_starts))
    ))
    RETURNING true
),
starts AS (
    DELETE FROM holdfast.lease_starts WHERE ctid = ANY (ARRAY(SELECT place FROM idle_starts))
),
beats AS (
    DELETE FROM holdfast.beats WHERE ctid = ANY (ARRAY(SELECT place FROM outdated)) RETURNING true
),
rates AS (
    DELETE FROM holdfast.rates WHERE ctid = ANY (ARRAY(SELECT place FROM unused))
),
actions AS (
    DELETE FROM holdfast.audits WHERE ctid = ANY (ARRAY(SELECT place FROM past_actions))
)
SELECT
    (SELECT count(*) FROM jobs) AS jobs,
    (SELECT count(*) FROM stubs) AS stubs,
    (SELECT count(*) FROM receipts) AS receipts,
    (SELECT count(*) FROM leases) AS leases,
    (SELECT count(*) FROM attempts) AS attempts,
    (SELECT count(*) FROM beats) AS beats,
    (now AT TIME ZONE 'UTC')::date AS today,
    -- One hour of margin: a row may have become a stub just before midnight, or be needed by a settle that is sent again.
    ((floor - interval '1 hour') AT TIME ZONE 'UTC')::date AS passed,
    (SELECT last FROM holdfast.partition_days) AS last,
    ARRAY(
        SELECT id FROM holdfast.finished_other
        WHERE flow = id AND delete_after <= (SELECT now FROM clock)
            AND NOT (finished_at <= (SELECT floor FROM clock) AND -- include awaited(finished_other.id)
            )
        ORDER BY delete_after
        LIMIT :limit
    ) AS flows
FROM clock
