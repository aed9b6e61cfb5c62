-- Claim of these jobs only, which a transport delivered; what else makes a job claimable holds for them too.
-- $1 lease, $2 claim, $3 how many are born running, $4 how many at most, $5–$8 the known tasks with their policies and
-- limits, $9 queues (NULL: all), $10 and $11 which kinds of tries, $12 whether the lease may be one that runs a job alone,
-- $13 ids. The rest as in exchange.sql.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

owner AS MATERIALIZED (
    SELECT
        lease.worker, lease.is_alone,
        NOT lease.is_alone OR $12 AND NOT EXISTS (SELECT FROM holdfast.active AS held WHERE held.lease = $1) AS may_claim
    FROM holdfast.leases AS lease
    WHERE lease.id = $1 AND lease.ended_at IS NULL AND lease.expires_at >= (SELECT now FROM clock)
    FOR KEY SHARE
),

taken AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        SELECT job.ctid
        FROM owner CROSS JOIN holdfast.pending AS job
        WHERE owner.may_claim AND job.id = ANY($13::uuid[]) AND job.state = 'available' AND job.task = ANY($5::text[])
            AND job.available_at <= (SELECT now FROM clock) AND (job.queue = ANY($9::text[]) OR $9 IS NULL)
            AND job.queue NOT IN (SELECT paused.queue FROM holdfast.paused AS paused)
            AND CASE
                WHEN job.proviso IS NULL THEN $10
                WHEN job.proviso = '-infinity' THEN $11
                ELSE $10 AND job.proviso > (SELECT now FROM clock)
            END
        ORDER BY job.priority, job.available_at, job.id
        LIMIT $4
        FOR UPDATE OF job SKIP LOCKED
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
        id, $2, nextval('holdfast.claim_numbers'), $1, worker, task, queue, priority,
        CASE WHEN rank <= $3 THEN 'running' ELSE 'claimed' END, attempt + (rank <= $3)::integer, failures, crashes, created_at,
        available_at, (SELECT now FROM clock), CASE WHEN rank <= $3 THEN (SELECT now FROM clock) END, expires_at, unique_key,
        tags, policy, progress_within, timeout, stage, fraction, message, progress_at, error, rescue, heal_at, checkpoint, payload
    FROM (
        SELECT
            taken.id, taken.task, taken.queue, taken.priority, taken.attempt, taken.failures, taken.crashes, taken.created_at,
            taken.available_at, taken.expires_at, taken.unique_key, taken.tags, known.policy, known.progress_within,
            known.timeout, taken.stage, taken.fraction, taken.message, taken.progress_at, taken.error, taken.rescue,
            taken.heal_at, taken.checkpoint, taken.payload, owner.worker,
            row_number() OVER (ORDER BY taken.priority, taken.available_at, taken.id) AS rank
        FROM owner CROSS JOIN taken
        JOIN unnest($5::text[], $6::text[], $7::double precision[], $8::double precision[])
            AS known (task, policy, progress_within, timeout) ON known.task = taken.task
    ) AS ranked
    RETURNING id, number, task, queue, state, attempt, failures, crashes, checkpoint, rescue, heal_at, payload
)

SELECT
    0::bigint AS applied, 0::bigint AS candidates, tally.is_alone, claimed.id, claimed.number, claimed.task, claimed.queue,
    claimed.state, claimed.attempt, claimed.failures, claimed.crashes, claimed.checkpoint, claimed.rescue, claimed.heal_at,
    CASE
        WHEN claimed.payload IS NULL THEN (SELECT bodies.payload FROM holdfast.bodies AS bodies WHERE bodies.job = claimed.id)
        ELSE claimed.payload
    END AS payload
FROM (SELECT (SELECT is_alone FROM owner) AS is_alone) AS tally
LEFT JOIN claimed ON true
ORDER BY claimed.number;
