-- Settle each transition under its token.
--
-- :jobs, :claims, :numbers (ascending, each once), :results, :retentions; one claim, result or retention alone is that of all.
-- :kinds as JSON, what a job that is not a first-try success settles with; :flows, the workflows that this transaction has locked.
-- Members of other workflows are left as they are. A member of a paused workflow that would be available is held.
-- Nothing that may be large is joined: see exchange.sql.
-- A row that another session has locked does not delay the others: its job stays as it is, and is asked for again.
-- Return how many were settled, the claim numbers of those whose precondition failed, the members that have ended, as JSON, and the jobs that
-- wait for children.
-- Lock order: active jobs, their keys, their records, their steps, their signals.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

judged AS MATERIALIZED (
    SELECT
        job.ctid AS place, job.claim_number, CASE (:kinds::json[])[width_bucket(job.claim_number, :numbers::bigint[])] ->> 'precondition'
            WHEN 'token' THEN true
            WHEN 'lease_ended' THEN NOT EXISTS (
                SELECT FROM holdfast.leases AS lease WHERE lease.id = job.lease AND lease.ended_at IS NULL OFFSET 0
            )
            WHEN 'voided' THEN job.state = 'claimed' AND EXISTS ( -- locked: it neither starts nor is voided again in between
                SELECT FROM holdfast.lease_starts AS known
                WHERE known.lease = job.lease AND known.started < job.claim_number
                    AND known.voids = ((:kinds::json[])[width_bucket(job.claim_number, :numbers::bigint[])] ->> 'voids')::bigint
                FOR SHARE
            )
            WHEN 'overdue' THEN (
                job.state = 'running' OR -- include has_begun(job)
            ) AND EXISTS (
                SELECT FROM holdfast.leases AS lease
                WHERE lease.id = job.lease AND lease.ended_at IS NULL AND (SELECT now FROM clock)
                    > (lease.ttl + lease.grace) * interval '1 second'
                    + CASE (:kinds::json[])[width_bucket(job.claim_number, :numbers::bigint[])] ->> 'rescued'
                        WHEN 'stalled' THEN coalesce(job.last_moved_at, job.started_at, job.claimed_at) + job.progress_within * interval '1 second'
                        WHEN 'timed_out' THEN coalesce(job.started_at, job.claimed_at) + job.timeout * interval '1 second'
                    END
            )
        END AS may_move
    FROM holdfast.active AS job
    WHERE -- include token(job, id, least(width_bucket(job.claim_number, :numbers::bigint[]), cardinality(:claims::uuid[])))
),

-- A session that changes one of these jobs now moves its row to where this statement does not see it. The job is skipped, and judged
-- again later.
mine AS MATERIALIZED (
    SELECT
        job.ctid AS place, job.id, job.unique_key IS NOT NULL AND asked.is_end AS is_keyed,
        job.attempt > (job.started_at IS NOT NULL)::integer AND asked.is_end AS is_remembered
    FROM holdfast.active AS job CROSS JOIN LATERAL (
        SELECT job.cancel_requested OR ((:kinds::json[])[width_bucket(job.claim_number, :numbers::bigint[])] ->> 'is_end')::boolean AS is_end
    ) AS asked
    WHERE job.ctid = ANY(ARRAY(SELECT judged.place FROM judged WHERE judged.may_move))
        AND -- include movable(job)
    FOR UPDATE OF job SKIP LOCKED
),

-- include keys(mine),

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
            -- include locked_keys(mine)
            -- A key that a claim has freed delays no end: a caller's open transaction may have taken it.
            AND (NOT keys.until_started OR keys.until > (SELECT now FROM clock))
            UNION ALL
            SELECT attempts.job FROM holdfast.attempts_other AS attempts
            WHERE attempts.job = ANY(ARRAY(SELECT mine.id FROM mine WHERE mine.is_remembered))
                AND attempts.ctid <> ALL(ARRAY(SELECT place FROM remembered))
        ))
    ))
    RETURNING job.*, width_bucket(job.claim_number, :numbers::bigint[]) AS place
),

settled AS MATERIALIZED (
    SELECT
        gone.*, asked.requested_state, asked.is_kept, asked.new_failures, asked.new_crashes, asked.delay, asked.reason,
        asked.new_error,
        asked.held_for, asked.awaits, asked.forgets_steps,
        -- A signal that came while the job ran, after the job had looked for it. The row is locked by now, and this sees what is committed.
        CASE WHEN asked.awaits IS NOT NULL THEN holdfast.has_signal(gone.id, asked.awaits) END AS is_signalled,
        asked.outcome, asked.signal, asked.stacks, asked.rescued_by, gone.attempt - (asked.never_ran AND gone.state = 'running')::integer + begun.now AS starts,
        gone.attempt + begun.now AS number, coalesce(gone.started_at, CASE WHEN NOT asked.never_ran THEN gone.claimed_at END) AS begun_at,
        (:results::bytea[])[least(gone.place, cardinality(:results::bytea[]))] AS result,
        -- A job with a requested cancellation that does not complete ends cancelled, by any settle.
        gone.cancel_requested AND asked.requested_state NOT IN ('completed', 'cancelled') AS is_stopped,
        asked.is_end OR gone.cancel_requested AS is_end,
        CASE
            WHEN gone.flow IS NOT NULL AND asked.requested_state = 'available' THEN EXISTS (
                SELECT FROM holdfast.flows AS flows
                WHERE flows.id = gone.flow AND flows.paused_at IS NOT NULL AND flows.ended_for IS NULL
            )
        END AS is_paused,
        CASE
            WHEN asked.requested_state = 'completed' THEN NULL
            WHEN asked.owes_hook THEN (SELECT now FROM clock)
            ELSE gone.hook_due_at
        END AS owed_from,
        CASE
            WHEN asked.rescued IS NULL THEN gone.rescue
            ELSE json_build_object(
                'reason', asked.rescued, 'worker', gone.worker, 'attempt', gone.attempt + begun.now,
                'at', (extract(epoch FROM (SELECT now FROM clock)) * 1000000)::bigint,
                'fraction', CASE WHEN gone.points IS NOT NULL THEN gone.fraction END
            )::text
        END AS new_rescue
    FROM gone CROSS JOIN json_to_record((:kinds::json[])[gone.place]) AS asked (
        requested_state text, is_end boolean, is_kept boolean, new_failures integer, new_crashes integer, never_ran boolean,
        delay double precision, reason text, new_error text, outcome text, signal text, stacks text, rescued text,
        rescued_by text, owes_hook boolean, awaits text, held_for text, forgets_steps boolean
    )
    -- A claimed job that settles as run has started with the others of its lease, when it was claimed.
    CROSS JOIN LATERAL (SELECT (gone.state = 'claimed' AND NOT asked.never_ran)::integer AS now) AS begun
),

-- delete_day: the day on which the row may be deleted; see the migration that made finished.
ended AS MATERIALIZED (
    SELECT
        over.*, CASE WHEN over.is_stopped THEN 'cancelled' ELSE over.requested_state END AS final_state,
        CASE
            WHEN NOT over.is_stopped AND over.reason IS DISTINCT FROM 'BY_OPERATOR' THEN over.reason
            WHEN over.flow <> over.id AND EXISTS (
                SELECT FROM holdfast.flows AS flows WHERE flows.id = over.flow AND flows.ended_for IS NOT NULL
            ) THEN 'BY_WORKFLOW'
            ELSE 'BY_OPERATOR'
        END AS final_reason, CASE
            WHEN over.life >= 86400 AND over.flow IS NULL AND ((SELECT utc FROM clock) + over.life * interval '1 second')::date
                BETWEEN (SELECT first FROM holdfast.partition_days) AND (SELECT last FROM holdfast.partition_days)
            THEN ((SELECT utc FROM clock) + over.life * interval '1 second')::date
            ELSE '-infinity'
        END AS delete_day
    FROM (
        SELECT
            settled.*, greatest(CASE -- a job whose hook is due stays for HOOK_RETENTION at least
                WHEN owed_from IS NULL THEN (:retentions::double precision[])[least(place, cardinality(:retentions::double precision[]))]
                ELSE greatest((:retentions::double precision[])[least(place, cardinality(:retentions::double precision[]))], 604800)
            END, CASE -- a completed job is kept for as long as it holds its unique key
                WHEN unique_key IS NOT NULL AND requested_state = 'completed' THEN (
                    SELECT extract(epoch FROM keys.until - (SELECT now FROM clock)) FROM holdfast.unique_keys AS keys
                    WHERE keys.job = settled.id
                )
            END) AS life
        FROM settled
        WHERE is_end
    ) AS over
),

finished AS (
    INSERT INTO holdfast.finished (
        id, delete_day, delete_after, state, claim_id, claim_number, worker, task, queue, key, priority, cancel_requested,
        attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, finished_at, expires_at, unique_key, tags, extra, policy, stage, fraction,
        message, progress_at, reason, error, rescue, hook_due_at, checkpoint, payload, result, flow, points
    )
    SELECT
        id, delete_day, CASE WHEN flow <> id THEN 'infinity' ELSE (SELECT now FROM clock) + life * interval '1 second' END, final_state,
        claim_id, claim_number, worker, task, queue, key, priority, cancel_requested, starts, new_failures, new_crashes,
        created_at, available_at,
        claimed_at, begun_at, (SELECT now FROM clock), expires_at, unique_key, tags, extra, policy, stage, fraction, message,
        progress_at, final_reason, new_error, new_rescue, owed_from, checkpoint, payload, result, flow, points
    FROM ended
),

waiting AS (
    INSERT INTO holdfast.pending (
        id, task, queue, key, priority, state, available_at, claimable_until, claim_number, attempt, failures, crashes,
        created_at, expires_at,
        unique_key, tags, extra, policy, stage, fraction, message, progress_at, error, rescue, hook_due_at, awaits, held_for,
        checkpoint, payload, flow
    )
    SELECT
        id, task, queue, key, priority, CASE WHEN is_paused THEN 'held' ELSE requested_state END,
        -- Without a delay the job keeps its position in its queue.
        CASE
            WHEN is_signalled THEN (SELECT now FROM clock)
            ELSE coalesce((SELECT now FROM clock) + delay * interval '1 second', available_at)
        END,
        CASE
            WHEN starts = 0 THEN expires_at
            WHEN new_crashes = 0 THEN NULL
            WHEN new_crashes >= coalesce(substring(policy FROM '"max_crashes":(\d{1,9})')::integer, 3) - 1 THEN '-infinity'
        END,
        claim_number, starts, new_failures, new_crashes, created_at, expires_at, unique_key, tags, extra, policy, stage, fraction,
        message,
        progress_at, coalesce(new_error, error), new_rescue, owed_from, CASE WHEN NOT is_signalled THEN awaits END,
        CASE WHEN is_paused THEN 'pause' ELSE held_for END, CASE WHEN forgets_steps IS NOT TRUE THEN checkpoint END, payload, flow
    FROM settled WHERE NOT is_end
    -- Another job that was given the same id must not keep the owner of this one from settling.
    ON CONFLICT DO NOTHING
),

-- Attempts are deleted with their job: the last one and those written before get the job's day.
records AS (
    INSERT INTO holdfast.attempts (
        job, claim_number, claim_id, delete_day, requested_state, outcome, attempt, worker, started_at, ended_at, signal,
        error, stacks, points, rescued_by
    )
    SELECT
        id, claim_number, claim_id, coalesce((SELECT ended.delete_day FROM ended WHERE ended.id = settled.id), '-infinity'),
        requested_state, outcome,
        number, worker, begun_at, (SELECT now FROM clock), signal, new_error, stacks, points, rescued_by
    FROM settled WHERE is_kept
),

aged AS (
    UPDATE holdfast.attempts AS attempts SET delete_day = (SELECT ended.delete_day FROM ended WHERE ended.id = attempts.job)
    WHERE attempts.delete_day = '-infinity' AND attempts.job = ANY(ARRAY(
        SELECT id FROM ended WHERE attempt > (started_at IS NOT NULL)::integer AND ended.delete_day <> '-infinity'
    ))
),

freed AS (
    DELETE FROM holdfast.unique_keys
    WHERE job = ANY(ARRAY(SELECT id FROM ended WHERE unique_key IS NOT NULL)) AND ctid = ANY(ARRAY(SELECT place FROM keys)) AND (
        until IS NULL OR until <= (SELECT now FROM clock) OR job <> ALL(ARRAY(SELECT id FROM ended WHERE final_state = 'completed'))
    )
),

-- Those that another session has locked are deleted with the job.
free_steps AS MATERIALIZED (
    SELECT steps.ctid AS place FROM holdfast.steps AS steps
    WHERE steps.job = ANY(ARRAY(SELECT id FROM ended WHERE forgets_steps AND NOT is_stopped))
    FOR UPDATE SKIP LOCKED
),

free_signals AS MATERIALIZED (
    SELECT signals.ctid AS place FROM holdfast.signals AS signals
    WHERE signals.job = ANY(ARRAY(SELECT id FROM ended WHERE forgets_steps AND NOT is_stopped))
    FOR UPDATE SKIP LOCKED
),

forgotten_steps AS (
    DELETE FROM holdfast.steps WHERE ctid = ANY(ARRAY(SELECT place FROM free_steps))
),

-- The next attempt must find none of them: this waits for a session that has locked one.
restarted AS (
    DELETE FROM holdfast.steps WHERE job = ANY(ARRAY(SELECT id FROM settled WHERE forgets_steps AND NOT is_end))
),

forgotten_signals AS (
    DELETE FROM holdfast.signals WHERE ctid = ANY(ARRAY(SELECT place FROM free_signals))
)

SELECT
    count(*) AS settled, ARRAY(SELECT judged.claim_number FROM judged WHERE judged.may_move IS NOT TRUE) AS refused,
    (
        SELECT json_agg(json_build_array(
            ended.id, ended.flow, ended.final_state, ended.final_reason, known.on_failure, known.is_gate
        ))
        FROM ended CROSS JOIN LATERAL (
            SELECT members.on_failure, members.is_gate FROM holdfast.members AS members WHERE members.job = ended.id OFFSET 0
        ) AS known
        WHERE ended.flow IS NOT NULL
    )::text AS members,
    ARRAY(SELECT settled.id FROM settled WHERE settled.requested_state = 'blocked' AND NOT settled.is_end) AS suspended
FROM gone;
