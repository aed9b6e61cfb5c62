-- Make finished, held and scheduled jobs due at once with fresh budgets; attempts and claim numbers continue.
-- Return each known job with its state (NULL: it moved since, ask again) and, if it stays finished for its key, the job that has the key.
-- Of several finished jobs with one key, the first one in the call takes the key again, unless another job holds it. A job whose
-- key a claim has freed does not ask for it.
-- :ids of jobs; :is_fresh, whether they lose their checkpoint and their steps; :flows, the workflows that this transaction has locked.
-- Finished members of workflows, and those of other workflows, are left as they are, and returned with their workflow.
-- Lock order: jobs by id, unique keys in their order, steps.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

over AS MATERIALIZED (
    SELECT
        *, array_position(:ids::uuid[], id) AS place,
        unique_key IS NOT NULL AND NOT (claim_number > 0 AND extra::json #>> '{unique,until_started}' IS NOT NULL) AS is_asking
    FROM holdfast.finished
    WHERE id = ANY(:ids::uuid[]) AND NOT is_stub AND flow IS NULL
    ORDER BY id
    FOR UPDATE
),

won AS (
    INSERT INTO holdfast.unique_keys AS keys (task, key, job, digest, until, until_started)
    SELECT DISTINCT ON (task, unique_key)
        task, unique_key, id,
        sha256(coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads AS payloads WHERE job = id), '')),
        created_at + (extra::json #>> '{unique,seconds}')::double precision * interval '1 second',
        extra::json #>> '{unique,until_started}' IS NOT NULL
    FROM over
    WHERE is_asking
    ORDER BY task, unique_key, place
    ON CONFLICT (task, key) DO UPDATE SET (job, digest, until, until_started) = (
        SELECT taken.job, taken.digest, taken.until, taken.until_started
        FROM (VALUES (true, keys.job, keys.digest, keys.until, keys.until_started), (
            false, excluded.job, excluded.digest, excluded.until, excluded.until_started
        )) AS taken (is_held, job, digest, until, until_started)
        WHERE taken.is_held = holdfast.holds_key(keys.job, keys.until, keys.until_started)
    )
    RETURNING keys.task, keys.key, keys.job
),

back AS MATERIALIZED (
    SELECT * FROM over WHERE NOT is_asking OR id IN (SELECT job FROM won)
),

removed AS (
    DELETE FROM holdfast.finished WHERE id = ANY(ARRAY(SELECT id FROM back))
),

-- Record the token, which the row is about to lose: a repeated settle under it must still be recognised.
records AS (
    INSERT INTO holdfast.attempts (job, claim_number, claim_id, requested_state, outcome, attempt, worker, started_at, ended_at, error, points)
    SELECT id, claim_number, claim_id, state, state, attempt, coalesce(worker, ''), started_at, finished_at, error, points
    FROM back
    WHERE claim_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM holdfast.attempts AS known
        WHERE known.job = back.id AND known.claim_number = back.claim_number AND known.claim_id = back.claim_id OFFSET 0
    )
),

-- No attempt of an unfinished job may be deleted.
kept AS (
    UPDATE holdfast.attempts SET delete_day = '-infinity'
    WHERE delete_day <> '-infinity' AND job = ANY(ARRAY(SELECT id FROM back WHERE back.delete_day <> '-infinity'))
),

waiting AS (
    INSERT INTO holdfast.pending (
        id, task, queue, key, priority, available_at, claim_number, attempt, created_at, unique_key, tags, extra, policy, stage,
        fraction, message,
        progress_at, rescue, hook_due_at, checkpoint, payload
    )
    SELECT
        id, task, queue, key, priority, (SELECT now FROM clock), claim_number, attempt, created_at, unique_key, tags, extra, policy,
        stage, fraction,
        message, progress_at, rescue, hook_due_at, CASE WHEN NOT :is_fresh::boolean THEN checkpoint END, payload
    FROM back
    ON CONFLICT DO NOTHING
),

fresh AS (
    UPDATE holdfast.pending SET
        state = 'available', available_at = (SELECT now FROM clock), failures = 0, crashes = 0, claimable_until = NULL,
        expires_at = NULL,
        error = NULL, awaits = NULL, held_for = NULL, checkpoint = CASE WHEN NOT :is_fresh::boolean THEN checkpoint END
    WHERE id = ANY(:ids::uuid[]) AND (state = 'held' OR state = 'available' AND available_at > (SELECT now FROM clock))
        AND -- include movable(pending)
    RETURNING id
),

forgotten AS (
    DELETE FROM holdfast.steps
    WHERE :is_fresh::boolean AND job = ANY(ARRAY(SELECT id FROM back UNION ALL SELECT id FROM fresh))
)

SELECT seen.id, coalesce(
    seen.state, CASE WHEN back.id IS NOT NULL OR fresh.id IS NOT NULL THEN 'available' END, over.state
) AS state, CASE WHEN won.job <> over.id THEN won.job END AS holder, seen.flow
FROM (
    SELECT id, CASE WHEN state = 'blocked' OR state = 'available' AND available_at <= (SELECT now FROM clock) THEN state END AS state,
    CASE WHEN state <> 'blocked' THEN flow END AS flow
    FROM holdfast.pending WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, -- include state_of(active)
    , NULL
    FROM holdfast.active WHERE id = ANY(:ids::uuid[])
    UNION ALL
    SELECT id, CASE WHEN is_stub THEN state END, CASE WHEN NOT is_stub THEN flow END FROM holdfast.finished WHERE id = ANY(:ids::uuid[])
) AS seen
LEFT JOIN over ON over.id = seen.id
LEFT JOIN won ON over.is_asking AND won.task = over.task AND won.key = over.unique_key
LEFT JOIN back ON back.id = seen.id
LEFT JOIN fresh ON fresh.id = seen.id;
