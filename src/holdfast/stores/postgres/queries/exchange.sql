-- Settle each transition under its token, then claim what is asked, all in one write.
--
-- $1–$6: jobs, claims, numbers (ascending, each once), results, retentions, and what else is said of those that are no
-- first-try success, as JSON; one claim, result or retention alone is that of all. $7 lease (NULL: no claim), $8 claim, $9 whether they are born running, $10 how many at most,
-- $11–$14 known tasks (ascending by bytes) with their policies and limits, $15 and $16 which kinds of tries, $17 whether the
-- lease may be one that runs a job alone. $18–$20: lines as lines.sql found them, $21–$23: all before this place (priority,
-- instant, job) was taken or locked just now, $24 how many more candidates to look at for those that others hold locked.
-- $25 ids (NULL: by lines) and $26 queues (NULL: all).
-- One snapshot for all of it: what is given back here with no delay is not claimed here.
-- Nothing that may be large is joined, because plans are made once, often while all tables are empty: rows are found by
-- = ANY(array), and what belongs to them in the parameters by width_bucket(), which is a binary search.
-- Of one line the first jobs that nobody holds locked are taken as they come. Of several the first due jobs of each are
-- candidates; of all candidates the first are locked, as many as asked and no more. Jobs are taken by their place, so that
-- no plan can take more than were locked.
-- Lock order: active jobs, their keys; the lease, waiting jobs.
WITH clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- What the next steps look at first comes first: of each row only the columns up to the last one asked for are unpacked.
gone AS (
    DELETE FROM holdfast.active AS job
    WHERE job.id = ANY($1::uuid[]) AND job.number = ($3::bigint[])[width_bucket(job.number, $3::bigint[])]
        AND job.id = ($1::uuid[])[width_bucket(job.number, $3::bigint[])]
        AND job.claim = ($2::uuid[])[least(width_bucket(job.number, $3::bigint[]), cardinality($2::uuid[]))]
        AND CASE ($6::json[])[width_bucket(job.number, $3::bigint[])] ->> 'judge'
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
            ELSE true
        END
    RETURNING
        ($6::json[])[width_bucket(job.number, $3::bigint[])] AS said, job.unique_key, job.id,
        least(width_bucket(job.number, $3::bigint[]), cardinality($4::bytea[])) AS place,
        ($5::double precision[])[least(width_bucket(job.number, $3::bigint[]), cardinality($5::double precision[]))] AS said_life,
        job.claim, job.number, job.worker, job.task, job.queue, job.priority,
        job.is_marked, job.attempt, job.failures, job.crashes, job.created_at, job.available_at, job.claimed_at,
        job.started_at, job.expires_at, job.tags, job.policy, job.stage, job.fraction, job.message, job.progress_at,
        job.error, job.rescue, job.heal_at, job.checkpoint, job.payload
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

-- day: when it may be forgotten; see the migration that made finished.
over AS MATERIALIZED (
    SELECT
        ended.*, CASE
            WHEN ended.life >= 86400 AND ((SELECT utc FROM clock) + ended.life * interval '1 second')::date
                BETWEEN (SELECT first FROM holdfast.days) AND (SELECT last FROM holdfast.days)
            THEN ((SELECT utc FROM clock) + ended.life * interval '1 second')::date
            ELSE '-infinity'
        END AS day
    FROM (
        SELECT
            rare.*,
            -- What still owes a hook is kept for HOOK_PATIENCE at least.
            CASE
                WHEN owed_from IS NULL THEN said_life
                ELSE greatest(said_life, 604800)
            END AS life
        FROM rare
        WHERE is_end
    ) AS ended
),

finished AS (
    INSERT INTO holdfast.finished (
        id, day, forget_at, state, claim, number, worker, task, queue, priority, is_marked, attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, finished_at, expires_at, unique_key, tags, policy, stage, fraction,
        message, progress_at, reason, error, rescue, heal_at, checkpoint, payload, result
    )
    SELECT
        id, CASE
            WHEN said_life >= 86400
                AND ((SELECT utc FROM clock) + said_life * interval '1 second')::date
                    BETWEEN (SELECT first FROM holdfast.days) AND (SELECT last FROM holdfast.days)
            THEN ((SELECT utc FROM clock) + said_life * interval '1 second')::date
            ELSE '-infinity'
        END, (SELECT now FROM clock) + said_life * interval '1 second',
        'completed', claim, number, worker, task, queue, priority, is_marked, attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, (SELECT now FROM clock), expires_at, unique_key, tags, policy, stage,
        fraction, message, progress_at, NULL, NULL, rescue, NULL, checkpoint, payload, ($4::bytea[])[place]
    FROM gone WHERE said IS NULL
    UNION ALL
    SELECT
        id, day, (SELECT now FROM clock) + life * interval '1 second', CASE WHEN is_stopped THEN 'cancelled' ELSE sent_to END, claim, number, worker, task, queue, priority, is_marked,
        attempt, said_failures, said_crashes, created_at, available_at, claimed_at, started_at, (SELECT now FROM clock),
        expires_at, unique_key, tags, policy, stage, fraction, message, progress_at,
        CASE WHEN is_stopped THEN 'BY_OPERATOR' ELSE reason END, said_error, said_rescue, owed_from, checkpoint, payload,
        ($4::bytea[])[place]
    FROM over
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

-- Records are forgotten with their job: those that were written before and the last one get its day.
records AS (
    INSERT INTO holdfast.attempts (
        job, number, claim, day, sent_to, outcome, attempt, worker, started_at, ended_at, signal, error, stacks
    )
    SELECT
        id, number, claim, coalesce((SELECT over.day FROM over WHERE over.id = rare.id), '-infinity'), sent_to, outcome, attempt,
        worker, started_at, (SELECT now FROM clock), signal, said_error, stacks
    FROM rare WHERE is_kept
),

aged AS (
    UPDATE holdfast.attempts AS attempts SET day = (SELECT over.day FROM over WHERE over.id = attempts.job)
    WHERE attempts.day = '-infinity' AND attempts.job = ANY(ARRAY(
        SELECT id FROM over WHERE attempt > 1 AND over.day <> '-infinity'
    ))
),

freed AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(
        SELECT id FROM gone WHERE unique_key IS NOT NULL AND said IS NULL
        UNION ALL
        SELECT id FROM over WHERE unique_key IS NOT NULL
    ))
),

-- Locked: nobody ends it before this claim is there to be found.
owner AS MATERIALIZED (
    SELECT
        lease.worker, lease.is_alone,
        NOT lease.is_alone OR $17 AND NOT EXISTS (SELECT FROM holdfast.active AS held WHERE held.lease = $7) AS may_claim
    FROM holdfast.leases AS lease
    WHERE lease.id = $7 AND lease.ended_at IS NULL AND lease.expires_at >= (SELECT now FROM clock)
    FOR KEY SHARE
),

lines AS MATERIALIZED (
    SELECT
        task, queue, priority, CASE WHEN priority <= $21 THEN $22::timestamptz ELSE '-infinity' END AS seen_at,
        CASE WHEN priority <= $21 THEN $23::uuid ELSE '00000000-0000-0000-0000-000000000000' END AS seen
    FROM owner CROSS JOIN unnest($18::text[], $19::text[], $20::bigint[]) AS line (task, queue, priority)
    WHERE owner.may_claim AND line.queue NOT IN (SELECT paused.queue FROM holdfast.paused AS paused)
),

candidates AS MATERIALIZED (
    SELECT job.place
    FROM lines CROSS JOIN LATERAL (
        SELECT job.ctid AS place FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = lines.task AND job.queue = lines.queue AND job.priority = lines.priority
            AND job.available_at <= (SELECT now FROM clock) AND (job.available_at, job.id) > (lines.seen_at, lines.seen)
            AND CASE
                WHEN job.proviso IS NULL THEN $15
                WHEN job.proviso = '-infinity' THEN $16
                ELSE $15 AND job.proviso > (SELECT now FROM clock)
            END
        ORDER BY job.available_at, job.id LIMIT $10::bigint + $24::bigint
    ) AS job
    WHERE cardinality($18::text[]) > 1
),

taken AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(CASE
        WHEN $25::uuid[] IS NOT NULL THEN ARRAY(
            SELECT job.ctid FROM holdfast.pending AS job
            WHERE (SELECT may_claim FROM owner) AND job.id = ANY($25::uuid[]) AND job.state = 'available'
                AND job.task = ANY($11::text[]) AND (job.queue = ANY($26::text[]) OR $26 IS NULL)
                AND job.queue NOT IN (SELECT paused.queue FROM holdfast.paused AS paused)
                AND job.available_at <= (SELECT now FROM clock) AND CASE
                    WHEN job.proviso IS NULL THEN $15
                    WHEN job.proviso = '-infinity' THEN $16
                    ELSE $15 AND job.proviso > (SELECT now FROM clock)
                END
            ORDER BY job.priority, job.available_at, job.id LIMIT $10
            FOR UPDATE SKIP LOCKED
        )
        WHEN cardinality($18::text[]) = 1 THEN ARRAY(
            SELECT job.ctid FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = (SELECT task FROM lines) AND job.queue = (SELECT queue FROM lines)
                AND job.priority = (SELECT priority FROM lines) AND job.available_at <= (SELECT now FROM clock)
                AND (job.available_at, job.id) > ((SELECT seen_at FROM lines), (SELECT seen FROM lines)) AND CASE
                    WHEN job.proviso IS NULL THEN $15
                    WHEN job.proviso = '-infinity' THEN $16
                    ELSE $15 AND job.proviso > (SELECT now FROM clock)
                END
            ORDER BY job.available_at, job.id LIMIT $10
            FOR UPDATE SKIP LOCKED
        )
        ELSE ARRAY(
            SELECT job.ctid FROM holdfast.pending AS job
            WHERE job.ctid = ANY(ARRAY(SELECT place FROM candidates))
                -- Again, for whoever is changed just now.
                AND job.state = 'available' AND job.available_at <= (SELECT now FROM clock)
            ORDER BY job.priority, job.available_at, job.id LIMIT $10
            FOR UPDATE SKIP LOCKED
        )
    END)
    RETURNING *
),

claimed AS (
    INSERT INTO holdfast.active (
        id, claim, number, lease, worker, task, queue, priority, state, attempt, failures, crashes, created_at, available_at,
        claimed_at, started_at, expires_at, unique_key, tags, policy, progress_within, timeout, stage, fraction, message,
        progress_at, error, rescue, heal_at, checkpoint, payload
    )
    SELECT
        id, $8, nextval('holdfast.claim_numbers'), $7, (SELECT worker FROM owner), task, queue, priority,
        CASE WHEN $9 THEN 'running' ELSE 'claimed' END, attempt + $9::integer, failures, crashes, created_at, available_at,
        (SELECT now FROM clock), CASE WHEN $9 THEN (SELECT now FROM clock) END, expires_at, unique_key, tags,
        ($12::text[])[width_bucket(task COLLATE "C", $11::text[])],
        ($13::double precision[])[width_bucket(task COLLATE "C", $11::text[])],
        ($14::double precision[])[width_bucket(task COLLATE "C", $11::text[])],
        stage, fraction, message, progress_at, error, rescue, heal_at, checkpoint, payload
    FROM (SELECT * FROM taken ORDER BY priority, available_at, id) AS taken
    RETURNING id, number, task, queue, priority, available_at, state, attempt, failures, crashes, checkpoint, rescue, heal_at, payload
)

SELECT
    tally.applied, tally.candidates, tally.is_alone, claimed.id, claimed.number, claimed.task, claimed.queue, claimed.state,
    claimed.attempt, claimed.failures, claimed.crashes, claimed.checkpoint, claimed.rescue, claimed.heal_at,
    CASE
        WHEN claimed.payload IS NULL THEN (SELECT bodies.payload FROM holdfast.bodies AS bodies WHERE bodies.job = claimed.id)
        ELSE claimed.payload
    END AS payload,
    CASE WHEN claimed.number = tally.last THEN claimed.priority END AS seen_priority,
    CASE WHEN claimed.number = tally.last THEN claimed.available_at END AS seen_at
FROM (
    SELECT
        (SELECT count(*) FROM gone) AS applied, (SELECT count(*) FROM candidates) AS candidates,
        (SELECT is_alone FROM owner) AS is_alone, (SELECT max(number) FROM claimed) AS last
) AS tally
LEFT JOIN claimed ON true
ORDER BY claimed.number;
