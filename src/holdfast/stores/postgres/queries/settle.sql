-- Settle each transition under its token.
--
-- $1–$6: jobs, claims, numbers (ascending, each once), results, retentions, and what else is said of those that are no
-- first-try success, as JSON; one claim, result or retention alone is that of all.
-- Nothing that may be large is joined: see exchange.sql.
-- What another session has locked delays no other: its job stays as it is, and is asked for again.
-- Answers how many were settled, and the numbers of those that their judge refused.
-- Lock order: active jobs, their keys, their records.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

judged AS MATERIALIZED (
    SELECT
        job.ctid AS place, job.number, CASE ($6::json[])[width_bucket(job.number, $3::bigint[])] ->> 'judge'
            WHEN 'owner' THEN true
            WHEN 'lease_ended' THEN NOT EXISTS (
                SELECT FROM holdfast.leases AS lease WHERE lease.id = job.lease AND lease.ended_at IS NULL OFFSET 0
            )
            WHEN 'stalled' THEN job.state = 'running' AND EXISTS (
                SELECT FROM holdfast.leases AS lease
                WHERE lease.id = job.lease AND lease.ended_at IS NULL AND (SELECT now FROM clock)
                    > coalesce(job.moved_at, job.started_at) + (job.progress_within + lease.ttl + lease.grace) * interval '1 second'
            )
            WHEN 'timed_out' THEN job.state = 'running' AND EXISTS (
                SELECT FROM holdfast.leases AS lease
                WHERE lease.id = job.lease AND lease.ended_at IS NULL AND (SELECT now FROM clock)
                    > job.started_at + (job.timeout + lease.ttl + lease.grace) * interval '1 second'
            )
        END AS may_move
    FROM holdfast.active AS job
    WHERE job.id = ANY($1::uuid[]) AND job.number = ($3::bigint[])[width_bucket(job.number, $3::bigint[])]
        AND job.id = ($1::uuid[])[width_bucket(job.number, $3::bigint[])]
        AND job.claim = ($2::uuid[])[least(width_bucket(job.number, $3::bigint[]), cardinality($2::uuid[]))]
),

-- Whoever changes one of them now has it elsewhere afterwards, where this statement does not see it: it is left, and judged anew.
mine AS MATERIALIZED (
    SELECT
        job.ctid AS place, job.id, job.unique_key IS NOT NULL AND said.is_end AS is_keyed,
        job.attempt > (job.started_at IS NOT NULL)::integer AND said.is_end AS is_remembered
    FROM holdfast.active AS job CROSS JOIN LATERAL (
        SELECT job.is_marked OR (($6::json[])[width_bucket(job.number, $3::bigint[])] ->> 'is_end')::boolean AS is_end
    ) AS said
    WHERE job.ctid = ANY(ARRAY(SELECT judged.place FROM judged WHERE judged.may_move))
    FOR UPDATE OF job SKIP LOCKED
),

keys AS MATERIALIZED (
    SELECT keys.ctid AS place FROM holdfast.unique_keys AS keys
    WHERE keys.job = ANY(ARRAY(SELECT mine.id FROM mine WHERE mine.is_keyed))
    FOR UPDATE SKIP LOCKED
),

remembered AS MATERIALIZED (
    SELECT attempts.ctid AS place FROM holdfast.attempts_other AS attempts
    WHERE attempts.job = ANY(ARRAY(SELECT mine.id FROM mine WHERE mine.is_remembered))
    FOR UPDATE SKIP LOCKED
),

gone AS (
    DELETE FROM holdfast.active AS job
    WHERE job.ctid = ANY(ARRAY(
        SELECT mine.place FROM mine
        WHERE mine.id <> ALL(ARRAY(
            SELECT keys.job FROM holdfast.unique_keys AS keys
            WHERE keys.job = ANY(ARRAY(SELECT mine.id FROM mine WHERE mine.is_keyed)) AND keys.ctid <> ALL(ARRAY(SELECT place FROM keys))
            UNION ALL
            SELECT attempts.job FROM holdfast.attempts_other AS attempts
            WHERE attempts.job = ANY(ARRAY(SELECT mine.id FROM mine WHERE mine.is_remembered))
                AND attempts.ctid <> ALL(ARRAY(SELECT place FROM remembered))
        ))
    ))
    RETURNING job.*, width_bucket(job.number, $3::bigint[]) AS place
),

settled AS MATERIALIZED (
    SELECT
        gone.*, said.sent_to, said.is_kept, said.said_failures, said.said_crashes, said.delay, said.reason, said.said_error,
        said.outcome, said.signal, said.stacks, gone.attempt - (said.never_ran AND gone.state = 'running')::integer AS starts,
        ($4::bytea[])[least(gone.place, cardinality($4::bytea[]))] AS result,
        -- A job marked for cancellation that does not complete ends cancelled, whoever settles it.
        gone.is_marked AND said.sent_to NOT IN ('completed', 'cancelled') AS is_stopped, said.is_end OR gone.is_marked AS is_end,
        CASE
            WHEN said.sent_to = 'completed' THEN NULL
            WHEN said.owes_hook THEN (SELECT now FROM clock)
            ELSE gone.hook_due_at
        END AS owed_from,
        CASE
            WHEN said.rescued IS NULL THEN gone.rescue
            ELSE json_build_object(
                'reason', said.rescued, 'worker', gone.worker, 'attempt', gone.attempt,
                'at', (extract(epoch FROM (SELECT now FROM clock)) * 1000000)::bigint
            )::text
        END AS said_rescue
    FROM gone CROSS JOIN json_to_record(($6::json[])[gone.place]) AS said (
        sent_to text, is_end boolean, is_kept boolean, said_failures integer, said_crashes integer, never_ran boolean,
        delay double precision, reason text, said_error text, outcome text, signal text, stacks text, rescued text, owes_hook boolean
    )
),

-- day: when it may be forgotten; see the migration that made finished.
ended AS MATERIALIZED (
    SELECT
        over.*, CASE
            WHEN over.life >= 86400 AND ((SELECT utc FROM clock) + over.life * interval '1 second')::date
                BETWEEN (SELECT first FROM holdfast.days) AND (SELECT last FROM holdfast.days)
            THEN ((SELECT utc FROM clock) + over.life * interval '1 second')::date
            ELSE '-infinity'
        END AS day
    FROM (
        SELECT
            settled.*, CASE -- what still owes a hook is kept for HOOK_PATIENCE at least
                WHEN owed_from IS NULL THEN ($5::double precision[])[least(place, cardinality($5::double precision[]))]
                ELSE greatest(($5::double precision[])[least(place, cardinality($5::double precision[]))], 604800)
            END AS life
        FROM settled
        WHERE is_end
    ) AS over
),

finished AS (
    INSERT INTO holdfast.finished (
        id, day, forget_at, state, claim, number, worker, task, queue, priority, is_marked, attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, finished_at, expires_at, unique_key, tags, policy, stage, fraction,
        message, progress_at, reason, error, rescue, hook_due_at, checkpoint, payload, result
    )
    SELECT
        id, day, (SELECT now FROM clock) + life * interval '1 second', CASE WHEN is_stopped THEN 'cancelled' ELSE sent_to END,
        claim, number, worker, task, queue, priority, is_marked, starts, said_failures, said_crashes, created_at, available_at,
        claimed_at, started_at, (SELECT now FROM clock), expires_at, unique_key, tags, policy, stage, fraction, message,
        progress_at, CASE WHEN is_stopped THEN 'BY_OPERATOR' ELSE reason END, said_error, said_rescue, owed_from, checkpoint,
        payload, result
    FROM ended
),

waiting AS (
    INSERT INTO holdfast.pending (
        id, task, queue, priority, state, available_at, proviso, number, attempt, failures, crashes, created_at, expires_at,
        unique_key, tags, policy, stage, fraction, message, progress_at, error, rescue, hook_due_at, checkpoint, payload
    )
    SELECT
        id, task, queue, priority, sent_to,
        -- Without a delay it keeps its place in line.
        coalesce((SELECT now FROM clock) + delay * interval '1 second', available_at),
        CASE
            WHEN starts = 0 THEN expires_at
            WHEN said_crashes = 0 THEN NULL
            WHEN said_crashes >= coalesce(substring(policy FROM '"max_crashes":(\d{1,9})')::integer, 3) - 1 THEN '-infinity'
        END,
        number, starts, said_failures, said_crashes, created_at, expires_at, unique_key, tags, policy, stage, fraction, message,
        progress_at, coalesce(said_error, error), said_rescue, owed_from, checkpoint, payload
    FROM settled WHERE NOT is_end
    -- Whoever gave another job this id must not keep this one's owner from settling.
    ON CONFLICT DO NOTHING
),

-- Records are forgotten with their job: those that were written before and the last one get its day.
records AS (
    INSERT INTO holdfast.attempts (
        job, number, claim, day, sent_to, outcome, attempt, worker, started_at, ended_at, signal, error, stacks
    )
    SELECT
        id, number, claim, coalesce((SELECT ended.day FROM ended WHERE ended.id = settled.id), '-infinity'), sent_to, outcome,
        attempt, worker, started_at, (SELECT now FROM clock), signal, said_error, stacks
    FROM settled WHERE is_kept
),

aged AS (
    UPDATE holdfast.attempts AS attempts SET day = (SELECT ended.day FROM ended WHERE ended.id = attempts.job)
    WHERE attempts.day = '-infinity' AND attempts.job = ANY(ARRAY(
        SELECT id FROM ended WHERE attempt > (started_at IS NOT NULL)::integer AND ended.day <> '-infinity'
    ))
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(SELECT id FROM ended WHERE unique_key IS NOT NULL))
)

SELECT count(*) AS settled, ARRAY(SELECT judged.number FROM judged WHERE judged.may_move IS NOT TRUE) AS refused FROM gone;
