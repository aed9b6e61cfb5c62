-- The columns that the next steps check come first: PostgreSQL unpacks a row only up to the last column that is asked for.
-- A row that another session has locked does not delay the others: its job stays as it is, and is asked for again.
mine AS MATERIALIZED (
    SELECT job.ctid AS place, job.id, job.unique_key IS NOT NULL AS is_keyed
    FROM holdfast.active AS job
    WHERE -- include token(job, id, least(width_bucket(job.claim_number, :numbers::bigint[]), cardinality(:claims::uuid[])))
        AND job.flow IS NULL -- members move under the lock of their workflow; settle_members.sql names the locked ones here
    FOR UPDATE SKIP LOCKED
),

-- include keys(mine),

gone AS (
    DELETE FROM holdfast.active AS job
    WHERE job.ctid = ANY(ARRAY(
        SELECT mine.place FROM mine
        WHERE mine.id <> ALL(ARRAY(
            -- include locked_keys(mine)
            -- A key that a claim has freed delays no end: a caller's open transaction may have taken it.
            AND (NOT keys.until_started OR keys.until > (SELECT now FROM clock))
        ))
    ))
    RETURNING
        job.id, job.unique_key, least(width_bucket(job.claim_number, :numbers::bigint[]), cardinality(:results::bytea[])) AS place,
        greatest((:retentions::double precision[])[
            least(width_bucket(job.claim_number, :numbers::bigint[]), cardinality(:retentions::double precision[]))
        ], CASE
            -- A completed job is kept for as long as it holds its unique key.
            WHEN job.unique_key IS NOT NULL THEN (
                SELECT extract(epoch FROM keys.until - (SELECT now FROM clock)) FROM holdfast.unique_keys AS keys WHERE keys.job = job.id
            )
        END) AS life,
        job.claim_id, job.claim_number, job.worker, job.task, job.queue, job.key, job.priority, job.cancel_requested,
        -- A claimed job that settles as run has started with the others of its lease, when it was claimed.
        job.attempt + (job.state = 'claimed')::integer AS attempt, job.failures,
        job.crashes, job.created_at, job.available_at, job.claimed_at, coalesce(job.started_at, job.claimed_at) AS started_at, job.expires_at, job.tags, job.extra, job.policy,
        job.stage, job.fraction, job.message, job.progress_at, job.rescue, job.checkpoint, job.payload, job.flow, job.points
),

-- delete_day: the day on which the row may be deleted; see the migration that made this table.
finished AS (
    INSERT INTO holdfast.finished (
        id, delete_day, delete_after, state, claim_id, claim_number, worker, task, queue, key, priority, cancel_requested,
        attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, finished_at, expires_at, unique_key, tags, extra, policy, stage, fraction,
        message, progress_at, rescue, checkpoint, payload, result, flow, points
    )
    SELECT
        id, CASE
            WHEN life >= 86400 AND flow IS NULL
                AND ((SELECT utc FROM clock) + life * interval '1 second')::date
                    BETWEEN (SELECT first FROM holdfast.partition_days) AND (SELECT last FROM holdfast.partition_days)
            THEN ((SELECT utc FROM clock) + life * interval '1 second')::date
            ELSE '-infinity'
        END, CASE WHEN flow <> id THEN 'infinity' ELSE (SELECT now FROM clock) + life * interval '1 second' END,
        'completed', claim_id, claim_number, worker, task, queue, key, priority, cancel_requested, attempt, failures, crashes,
        created_at, available_at, claimed_at, started_at, (SELECT now FROM clock), expires_at, unique_key, tags, extra, policy, stage,
        fraction, message, progress_at, rescue, checkpoint, payload, (:results::bytea[])[place], flow, points
    FROM gone
),

freed AS (
    DELETE FROM holdfast.unique_keys
    WHERE job = ANY(ARRAY(SELECT id FROM gone WHERE unique_key IS NOT NULL)) AND ctid = ANY(ARRAY(SELECT place FROM keys))
        AND (until IS NULL OR until <= (SELECT now FROM clock))
),
