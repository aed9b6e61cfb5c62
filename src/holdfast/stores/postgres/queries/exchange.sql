-- Settle each transition under its token, then claim what is asked, all in one write.
--
-- $1–$6: jobs, claims, numbers (ascending, each once), results, retentions, and what else is said of those that are no
-- first-try success, as JSON. $7 lease (NULL: no claim), $8 claim, $9 how many are born running, $10 how many at most,
-- $11–$14 known tasks (ascending by bytes) with their policies and limits, $15 queues (NULL: all), $16 and $17 which kinds
-- of tries, $18 how many more candidates to look at for those that others hold locked, $19 whether the lease may be one that
-- runs a job alone.
-- One snapshot for all of it: what is given back here with no delay is not claimed here.
-- Nothing that may be large is joined, because plans are made once, often while all tables are empty: rows are found by
-- = ANY(array), and what belongs to them in the parameters by width_bucket(), which is a binary search.
-- A claim walks lines, (task, queue, priority), by a loose index scan, from one straight to the next; a queue's walk ends
-- once its more urgent lines hold enough. Of each line the first due jobs are candidates; of all candidates the first are
-- locked, as many as asked and no more, and taken by their place: no plan can take more.
-- Lock order: active jobs, their keys; the lease, waiting jobs.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

gone AS (
    DELETE FROM holdfast.active AS job
    WHERE job.id = ANY($1::uuid[]) AND job.number = ($3::bigint[])[width_bucket(job.number, $3::bigint[])]
        AND job.id = ($1::uuid[])[width_bucket(job.number, $3::bigint[])]
        AND job.claim = ($2::uuid[])[width_bucket(job.number, $3::bigint[])]
        AND CASE coalesce(($6::json[])[width_bucket(job.number, $3::bigint[])] ->> 'judge', 'owner')
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
        END
    RETURNING
        job.*,
        ($4::bytea[])[width_bucket(job.number, $3::bigint[])] AS result,
        ($5::double precision[])[width_bucket(job.number, $3::bigint[])] * interval '1 second' AS life,
        ($6::json[])[width_bucket(job.number, $3::bigint[])] AS said
),

rare AS MATERIALIZED (
    SELECT
        gone.*, settle.sent_to, settle.is_kept, settle.said_failures, settle.said_crashes, settle.delay, settle.reason,
        settle.said_error, settle.outcome, settle.signal, settle.stacks,
        -- A job marked for cancellation that does not complete ends cancelled, whoever settles it.
        gone.is_marked AND settle.sent_to NOT IN ('completed', 'cancelled') AS is_stopped,
        settle.is_end OR gone.is_marked AS is_end,
        CASE
            WHEN settle.sent_to = 'completed' THEN NULL
            WHEN settle.owes_hook THEN (SELECT now FROM clock)
            ELSE gone.heal_at
        END AS owed_from,
        CASE
            WHEN settle.rescued IS NULL THEN gone.rescue
            ELSE json_build_object(
                'reason', settle.rescued, 'worker', gone.worker, 'attempt', gone.attempt,
                'at', (extract(epoch FROM (SELECT now FROM clock)) * 1000000)::bigint
            )::text
        END AS said_rescue
    FROM gone CROSS JOIN json_to_record(gone.said) AS settle (
        sent_to text, is_end boolean, is_kept boolean, said_failures integer, said_crashes integer, delay double precision,
        reason text, said_error text, outcome text, signal text, stacks text, rescued text, owes_hook boolean
    )
    WHERE gone.said IS NOT NULL
),

ended AS (
    SELECT
        id, life, 'completed' AS state, claim, number, worker, task, queue, priority, is_marked, attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, expires_at, unique_key, tags, policy, stage, fraction, message,
        progress_at, NULL AS reason, NULL AS error, rescue, NULL::timestamptz AS heal_at, checkpoint, payload, result
    FROM gone WHERE said IS NULL
    UNION ALL
    SELECT
        -- What still owes a hook is kept for HOOK_PATIENCE at least.
        id, CASE WHEN owed_from IS NULL THEN life ELSE greatest(life, interval '604800 seconds') END,
        CASE WHEN is_stopped THEN 'cancelled' ELSE sent_to END, claim, number, worker, task, queue, priority, is_marked,
        attempt, said_failures, said_crashes, created_at, available_at, claimed_at, started_at, expires_at, unique_key, tags,
        policy, stage, fraction, message, progress_at, CASE WHEN is_stopped THEN 'BY_OPERATOR' ELSE reason END, said_error,
        said_rescue, owed_from, checkpoint, payload, result
    FROM rare WHERE is_end
),

-- The day on which it may be forgotten: see the migration that made these tables.
finished AS (
    INSERT INTO holdfast.finished (
        id, day, forget_at, state, claim, number, worker, task, queue, priority, is_marked, attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, finished_at, expires_at, unique_key, tags, policy, stage, fraction,
        message, progress_at, reason, error, rescue, heal_at, checkpoint, payload, result
    )
    SELECT
        ended.id, CASE
            WHEN ended.life >= interval '1 day'
                AND ((clock.now + ended.life) AT TIME ZONE 'UTC')::date BETWEEN days.first AND days.last
            THEN ((clock.now + ended.life) AT TIME ZONE 'UTC')::date
            ELSE '-infinity'
        END, clock.now + ended.life, ended.state, ended.claim, ended.number, ended.worker, ended.task, ended.queue,
        ended.priority, ended.is_marked, ended.attempt, ended.failures, ended.crashes, ended.created_at, ended.available_at,
        ended.claimed_at, ended.started_at, clock.now, ended.expires_at, ended.unique_key, ended.tags, ended.policy,
        ended.stage, ended.fraction, ended.message, ended.progress_at, ended.reason, ended.error, ended.rescue, ended.heal_at,
        ended.checkpoint, ended.payload, ended.result
    FROM clock CROSS JOIN holdfast.days AS days CROSS JOIN ended
    RETURNING id, day, attempt, unique_key
),

waiting AS (
    INSERT INTO holdfast.pending (
        id, task, queue, priority, state, available_at, proviso, number, attempt, failures, crashes, created_at, expires_at,
        unique_key, tags, policy, stage, fraction, message, progress_at, error, rescue, heal_at, checkpoint, payload
    )
    SELECT
        id, task, queue, priority, sent_to, (SELECT now FROM clock) + delay * interval '1 second',
        CASE
            WHEN attempt = 0 THEN expires_at
            WHEN said_crashes = 0 THEN NULL
            WHEN said_crashes >= coalesce(substring(policy FROM '"max_crashes":(\d{1,9})')::integer, 3) - 1 THEN '-infinity'
        END,
        number, attempt, said_failures, said_crashes, created_at, expires_at, unique_key, tags, policy, stage, fraction, message,
        progress_at, coalesce(said_error, error), said_rescue, owed_from, checkpoint, payload
    FROM rare WHERE NOT is_end
    -- Whoever gave another job this id must not keep this one's owner from settling.
    ON CONFLICT DO NOTHING
),

records AS (
    INSERT INTO holdfast.attempts (
        job, number, claim, day, sent_to, outcome, attempt, worker, started_at, ended_at, signal, error, stacks
    )
    SELECT
        id, number, claim, coalesce((SELECT finished.day FROM finished WHERE finished.id = rare.id), '-infinity'), sent_to,
        outcome, attempt, worker, started_at, (SELECT now FROM clock), signal, said_error, stacks
    FROM rare WHERE is_kept
),

-- Records of earlier attempts are forgotten with their job, now that its day is known.
aged AS (
    UPDATE holdfast.attempts AS attempts SET day = (SELECT finished.day FROM finished WHERE finished.id = attempts.job)
    WHERE attempts.day = '-infinity'
        AND attempts.job = ANY(ARRAY(SELECT id FROM finished WHERE attempt > 1 AND finished.day <> '-infinity'))
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(SELECT id FROM finished WHERE unique_key IS NOT NULL))
),

-- Locked: nobody ends it before this claim is there to be found.
owner AS MATERIALIZED (
    SELECT
        lease.worker, lease.is_alone,
        NOT lease.is_alone OR $19 AND NOT EXISTS (SELECT FROM holdfast.active AS held WHERE held.lease = $7) AS may_claim
    FROM holdfast.leases AS lease
    WHERE lease.id = $7 AND lease.ended_at IS NULL AND lease.expires_at >= (SELECT now FROM clock)
    FOR KEY SHARE
),

lines (task, queue, priority, places, before) AS (
    SELECT
        known.task, first.queue, first.priority, CASE
            WHEN first.queue = ANY($15) OR $15 IS NULL THEN ARRAY(
                SELECT job.ctid FROM holdfast.pending AS job
                WHERE job.state = 'available' AND job.task = known.task AND job.queue = first.queue
                    AND job.priority = first.priority AND job.available_at <= (SELECT now FROM clock)
                    AND CASE
                        WHEN job.proviso IS NULL THEN $16
                        WHEN job.proviso = '-infinity' THEN $17
                        ELSE $16 AND job.proviso > (SELECT now FROM clock)
                    END
                ORDER BY job.available_at, job.id LIMIT $10::bigint + $18::bigint
            )
        END, 0
    FROM owner CROSS JOIN unnest($11::text[]) AS known (task)
    CROSS JOIN LATERAL (
        SELECT job.queue, job.priority FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = known.task
        ORDER BY job.queue, job.priority LIMIT 1
    ) AS first
    WHERE owner.may_claim
    UNION ALL
    SELECT
        lines.task, next.queue, next.priority, CASE
            WHEN next.queue = ANY($15) OR $15 IS NULL THEN ARRAY(
                SELECT job.ctid FROM holdfast.pending AS job
                WHERE job.state = 'available' AND job.task = lines.task AND job.queue = next.queue
                    AND job.priority = next.priority AND job.available_at <= (SELECT now FROM clock)
                    AND CASE
                        WHEN job.proviso IS NULL THEN $16
                        WHEN job.proviso = '-infinity' THEN $17
                        ELSE $16 AND job.proviso > (SELECT now FROM clock)
                    END
                ORDER BY job.available_at, job.id LIMIT $10::bigint + $18::bigint
            )
        END, CASE WHEN next.queue = lines.queue THEN lines.before + coalesce(cardinality(lines.places), 0) ELSE 0 END
    FROM lines
    CROSS JOIN LATERAL (
        SELECT job.queue, job.priority FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = lines.task AND (job.queue, job.priority) > (lines.queue, CASE
            WHEN lines.before + coalesce(cardinality(lines.places), 0) < $10::bigint + $18::bigint THEN lines.priority
            ELSE 9223372036854775807
        END)
        ORDER BY job.queue, job.priority LIMIT 1
    ) AS next
),

candidates AS MATERIALIZED (
    SELECT place
    FROM lines CROSS JOIN unnest(lines.places) AS place
    WHERE lines.queue NOT IN (SELECT paused.queue FROM holdfast.paused AS paused)
),

taken AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        SELECT job.ctid FROM holdfast.pending AS job
        WHERE job.ctid = ANY(ARRAY(SELECT place FROM candidates))
            -- Again, for whoever is changed just now.
            AND job.state = 'available' AND job.available_at <= (SELECT now FROM clock)
        ORDER BY job.priority, job.available_at, job.id
        LIMIT $10
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
),

claimed AS (
    INSERT INTO holdfast.active (
        id, claim, number, lease, worker, task, queue, priority, state, attempt, failures, crashes, created_at, available_at,
        claimed_at, started_at, expires_at, unique_key, tags, policy, progress_within, timeout, stage, fraction, message,
        progress_at, error, rescue, heal_at, checkpoint, payload
    )
    SELECT
        ranked.id, $8, nextval('holdfast.claim_numbers'), $7, owner.worker, ranked.task, ranked.queue, ranked.priority,
        CASE WHEN ranked.rank <= $9 THEN 'running' ELSE 'claimed' END, ranked.attempt + (ranked.rank <= $9)::integer,
        ranked.failures, ranked.crashes, ranked.created_at, ranked.available_at, (SELECT now FROM clock),
        CASE WHEN ranked.rank <= $9 THEN (SELECT now FROM clock) END, ranked.expires_at, ranked.unique_key, ranked.tags,
        ($12::text[])[width_bucket(ranked.task COLLATE "C", $11::text[])],
        ($13::double precision[])[width_bucket(ranked.task COLLATE "C", $11::text[])],
        ($14::double precision[])[width_bucket(ranked.task COLLATE "C", $11::text[])],
        ranked.stage, ranked.fraction, ranked.message, ranked.progress_at, ranked.error, ranked.rescue, ranked.heal_at,
        ranked.checkpoint, ranked.payload
    FROM owner CROSS JOIN (
        SELECT taken.*, row_number() OVER (ORDER BY priority, available_at, id) AS rank FROM taken
    ) AS ranked
    RETURNING id, number, task, queue, state, attempt, failures, crashes, checkpoint, rescue, heal_at, payload
)

SELECT
    tally.applied, tally.candidates, tally.is_alone, claimed.id, claimed.number, claimed.task, claimed.queue, claimed.state,
    claimed.attempt, claimed.failures, claimed.crashes, claimed.checkpoint, claimed.rescue, claimed.heal_at,
    CASE
        WHEN claimed.payload IS NULL THEN (SELECT bodies.payload FROM holdfast.bodies AS bodies WHERE bodies.job = claimed.id)
        ELSE claimed.payload
    END AS payload
FROM (
    SELECT
        (SELECT count(*) FROM gone) AS applied, (SELECT count(*) FROM candidates) AS candidates,
        (SELECT is_alone FROM owner) AS is_alone
) AS tally
LEFT JOIN claimed ON true
ORDER BY claimed.number;
