-- Settle each transition under its token, then claim the requested jobs, all in one write.
--
-- A temporary trigger writes three tables in one step. Between the steps of a transaction Python would have to get its
-- interpreter lock again while it holds the lock of the file. Then one busy thread would stop every process.
-- There is no RETURNING for the same reason: the answers are read afterwards, without any lock.
-- :kinds are what transitions have in common, each with the places of its jobs in :items; the bytes of :items are laid
-- out in parameters.py. Reading digits out of a blob costs a sixth of reading them out of JSON.
-- A job to which others have been tied since it was claimed is left, unless its transition has_flow: exchange.py settles it afterwards.

CREATE TEMP VIEW holdfast_exchange (
    items, data, kinds, lease, voids, claim_id, tasks, queues, normal, isolated, running, room, wall, monotonic, boot, clock, ids, ranges, most, is_even,
    within_limits
) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;

-- The jobs that a claim takes, in its order. A table numbers them at half the cost of row_number().
CREATE TEMP TABLE holdfast_due (
    rank INTEGER PRIMARY KEY, place INTEGER NOT NULL, policy TEXT, is_limited INTEGER, worker TEXT, last_number INTEGER NOT NULL
);

-- The number of transitions that the last exchange of this connection applied.
CREATE TEMP TABLE holdfast_tally (applied INTEGER NOT NULL);
INSERT INTO holdfast_tally (applied) VALUES (0);

CREATE TEMP TRIGGER holdfast_settle_and_claim INSTEAD OF INSERT ON holdfast_exchange
BEGIN
    -- First record the attempts that end, while the rows of their jobs still name the worker and the start.
    INSERT INTO holdfast_attempts (
        job, claim_number, claim_id, requested_state, outcome, attempt, worker, started_at, ended_at, signal, error, stacks,
        points, rescued_by
    )
    SELECT
        jobs.id, jobs.claim_number, jobs.claim_id, settle.requested_state, settle.outcome,
        jobs.attempt + (jobs.state = 'claimed'),
        coalesce(jobs.worker, ''),
        coalesce(jobs.started_at, iif(settle.outcome IS NULL, NULL, jobs.claimed_at)), NEW.wall, settle.signal, settle.error,
        settle.stacks, jobs.points, settle.rescued_by
    FROM (
        WITH kind AS MATERIALIZED (
            SELECT
                json_extract(value, '$.to') AS requested_state,
                json_extract(value, '$.outcome') AS outcome,
                json_extract(value, '$.signal') AS signal,
                json_extract(value, '$.error') AS error,
                json_extract(value, '$.stacks') AS stacks,
                json_extract(value, '$.precondition') AS precondition,
                json_extract(value, '$.voids') AS voids,
                json_extract(value, '$.has_flow') AS has_flow,
                json_extract(value, '$.rescued') AS rescued,
                json_extract(value, '$.rescued_by') AS rescued_by,
                json_extract(value, '$.at') AS places
            FROM json_each(NEW.kinds)
            WHERE json_extract(value, '$.is_kept')
        )
        SELECT
            substr(NEW.items, 72 * place.value + 1, 16) AS job,
            substr(NEW.items, 72 * place.value + 17, 16) AS claim_id,
            substr(NEW.items, 72 * place.value + 33, 19) + 0 AS claim_number,
            kind.*
        FROM kind, json_each(kind.places) AS place
    ) AS settle
    JOIN holdfast_jobs AS jobs ON jobs.id = settle.job
    WHERE jobs.claim_id = settle.claim_id AND jobs.claim_number = settle.claim_number AND jobs.state IN ('claimed', 'running')
        AND (settle.has_flow OR jobs.flow IS NULL) AND -- include precondition(jobs)
    ON CONFLICT DO NOTHING;

    -- A job with a requested cancellation that does not complete ends cancelled, by any settle.
    UPDATE holdfast_jobs SET
        state = iif(cancel_requested AND settle.requested_state NOT IN ('completed', 'cancelled'), 'cancelled', settle.requested_state),
        reason = iif(cancel_requested AND settle.requested_state NOT IN ('completed', 'cancelled'), 'BY_OPERATOR', settle.reason),
        error = iif(settle.is_end OR cancel_requested, settle.error, coalesce(settle.error, holdfast_jobs.error)),
        result = settle.result,
        -- A claimed job that settles as run has started with the others of its lease, when it was claimed.
        attempt = attempt + (NOT settle.never_ran AND holdfast_jobs.state = 'claimed')
            - (settle.never_ran AND holdfast_jobs.state = 'running'),
        failures = settle.failures,
        crashes = settle.crashes,
        claimable_until = CASE
            WHEN settle.is_end THEN NULL
            WHEN settle.never_ran AND attempt = (holdfast_jobs.state = 'running') THEN expires_at
            WHEN settle.crashes = 0 THEN NULL
            WHEN settle.crashes >= coalesce(iif(json_valid(policy), json_extract(policy, '$.max_crashes'), NULL), 3) - 1 THEN 0
        END,
        claim_id = iif(settle.is_end OR cancel_requested, holdfast_jobs.claim_id, NULL),
        lease = NULL,
        worker = iif(settle.is_end OR cancel_requested, worker, NULL),
        -- Without a delay the job keeps its position in its queue.
        available_at = CASE
            WHEN settle.is_end OR cancel_requested THEN available_at
            WHEN settle.is_signalled THEN NEW.wall
            ELSE coalesce(NEW.wall + settle.delay, available_at)
        END,
        awaits = iif(settle.is_signalled, NULL, settle.awaits),
        held_for = settle.held_for,
        claimed_at = iif(settle.is_end OR cancel_requested, claimed_at, NULL),
        started_at = iif(settle.is_end OR cancel_requested, coalesce(started_at, iif(settle.never_ran, NULL, claimed_at)), NULL),
        finished_at = iif(settle.is_end OR cancel_requested, NEW.wall, NULL),
        -- A job whose rescue hook is due is kept for at least HOOK_RETENTION.
        -- A completed job is kept for as long as it holds its unique key.
        delete_after = iif(settle.is_end OR cancel_requested, max(NEW.wall + iif(
            settle.requested_state <> 'completed' AND (settle.owes_hook OR hook_due_at IS NOT NULL),
            max(settle.retention, 604800000000), settle.retention
        ), iif(
            unique_key IS NULL OR settle.requested_state <> 'completed', 0,
            coalesce(created_at + CAST(round(json_extract(extra, '$.unique.seconds') * 1000000) AS INTEGER), 0)
        )), NULL),
        rescue = iif(
            settle.rescued IS NULL, rescue,
            json_object(
                'reason', settle.rescued, 'worker', coalesce(worker, ''),
                'attempt', attempt + (holdfast_jobs.state = 'claimed'), 'at', NEW.wall,
                'fraction', iif(points IS NULL, NULL, fraction)
            )
        ),
        hook_due_at = CASE WHEN settle.requested_state = 'completed' THEN NULL WHEN settle.owes_hook THEN NEW.wall ELSE hook_due_at END,
        started_mono = NULL,
        last_moved_at = NULL,
        report_order = 0,
        points = iif(settle.is_end OR cancel_requested, points, NULL)
    FROM (
        WITH kind AS MATERIALIZED (
            SELECT
                json_extract(value, '$.to') AS requested_state,
                json_extract(value, '$.to') IN ('completed', 'failed', 'cancelled') AS is_end,
                json_extract(value, '$.reason') AS reason,
                json_extract(value, '$.error') AS error,
                json_extract(value, '$.failures') AS failures,
                json_extract(value, '$.crashes') AS crashes,
                json_extract(value, '$.delay') AS delay,
                json_extract(value, '$.never_ran') AS never_ran,
                json_extract(value, '$.retention') AS retention,
                json_extract(value, '$.rescued') AS rescued,
                json_extract(value, '$.owes_hook') AS owes_hook,
                json_extract(value, '$.precondition') AS precondition,
                json_extract(value, '$.voids') AS voids,
                json_extract(value, '$.has_flow') AS has_flow,
                json_extract(value, '$.awaits') AS awaits,
                json_extract(value, '$.held_for') AS held_for,
                json_extract(value, '$.at') AS places
            FROM json_each(NEW.kinds)
        )
        SELECT
            substr(NEW.items, 72 * place.value + 1, 16) AS job,
            substr(NEW.items, 72 * place.value + 17, 16) AS claim_id,
            substr(NEW.items, 72 * place.value + 33, 19) + 0 AS claim_number,
            iif(
                substr(NEW.items, 72 * place.value + 52, 11) + 0 > 0,
                substr(NEW.data, substr(NEW.items, 72 * place.value + 52, 11), substr(NEW.items, 72 * place.value + 63, 10)),
                NULL
            ) AS result,
            -- A signal that came while the job ran, after the job had looked for it.
            kind.awaits IS NOT NULL AND EXISTS (
                SELECT 1 FROM holdfast_signals AS signals
                WHERE signals.job = substr(NEW.items, 72 * place.value + 1, 16) AND signals.name = kind.awaits
            ) AS is_signalled,
            kind.*
        FROM kind, json_each(kind.places) AS place
    ) AS settle
    WHERE holdfast_jobs.id = settle.job
        AND holdfast_jobs.claim_id = settle.claim_id AND holdfast_jobs.claim_number = settle.claim_number AND state IN ('claimed', 'running')
        AND (settle.has_flow OR holdfast_jobs.flow IS NULL) AND -- include precondition(holdfast_jobs);

    UPDATE holdfast_tally SET applied = changes();

    -- Of each of :ranges, which look.sql has found, only the first due jobs are read, as many as its lane gives.
    -- exchange_lanes.sql takes from lanes that are not even.
    -- Everything is judged again: since then others may have taken jobs.
    DELETE FROM holdfast_due;
    INSERT INTO holdfast_due (place, policy, is_limited, worker, last_number)
    SELECT * FROM (
        WITH
        -- include owner(NEW.lease, NEW.voids, NEW.monotonic, NEW.boot, NEW.clock, 1),
        -- include spans(iif(NEW.is_even, NEW.ranges, NULL))
        SELECT job.rowid, spans.policy, spans.is_limited, owner.worker, owner.last_number
        FROM owner
        CROSS JOIN spans
        CROSS JOIN holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = spans.task AND job.priority = spans.priority AND job.queue = spans.queue
            AND job.key = spans.key AND (job.available_at, job.id) <= (spans.last_at, spans.last_id)
            AND -- include claimable(job, NEW.normal, NEW.isolated, NEW.wall)
        ORDER BY job.priority, job.available_at, job.id
        LIMIT NEW.room
    );
    -- include take_due();
END;

-- call
INSERT INTO holdfast_exchange (
    items, data, kinds, lease, voids, claim_id, tasks, normal, isolated, running, room, wall, monotonic, boot, clock, ranges, most, is_even
) VALUES (
    :items, :data, :kinds, :lease, :voids, :claim_id, :tasks, :normal, :isolated, :running, :room, :wall, :monotonic, :boot, :clock, :ranges, :most, true
);
