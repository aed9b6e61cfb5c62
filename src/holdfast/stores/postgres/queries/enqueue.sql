-- Insert all jobs and the receipt of their call; if the receipt exists already, nothing, and return the answer of the first copy.
--
-- :call, one parameter as in enqueue_plain.sql; with a flow, its jobs are members of that workflow, all of them or none is inserted. Its keys are the distinct unique keys of the call, each with the first job that has
-- it. The job that has a key is computed, never found out by a raised constraint: that would abort the caller's transaction. In READ
-- COMMITTED a key whose job this statement's snapshot shows is only read. Any other key is inserted, or answered by the job that got it
-- since: see hold_keys in the schema. Neither locks that job's row, so no open transaction of a caller keeps the job from finishing. Only
-- a job whose first claim frees its key is locked, while it waits: see holds_key.
-- Nothing that may be large is joined, because plans are made once, often while all tables are empty.
-- Lock order: the parent, unique keys in their order.
WITH asked AS MATERIALIZED (
    SELECT asked.*, clock_timestamp() AS now
    FROM json_to_record(:call::json) AS asked (
        call uuid, kinds json, payloads json, is_durable boolean, keys json, is_refused boolean,
        parent uuid, parent_claim uuid, parent_number bigint, flow uuid
    )
),

-- synchronous_commit is raised, never lowered.
durable AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'on', true) FROM asked
    WHERE is_durable AND current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
),

earlier AS MATERIALIZED (
    SELECT answer FROM holdfast.receipts WHERE call = (SELECT call FROM asked)
),

-- Lock the parent: its settle must wait until its children are inserted.
parent AS MATERIALIZED (
    SELECT id FROM holdfast.active
    WHERE id = (SELECT parent FROM asked) AND claim_id = (SELECT parent_claim FROM asked)
        AND claim_number = (SELECT parent_number FROM asked) AND NOT EXISTS (SELECT FROM earlier)
    FOR KEY SHARE
),

wanted AS MATERIALIZED (
    SELECT wanted.task, wanted.key, wanted.job, decode(wanted.digest, 'hex') AS digest, wanted.period,
    coalesce(wanted.starts, false) AS starts, held.job AS holder, held.digest AS held
    FROM asked
    CROSS JOIN json_to_recordset(asked.keys) AS wanted (
        task text, key text, job uuid, digest text, period double precision, starts boolean
    )
    LEFT JOIN LATERAL (
        SELECT keys.job,
        keys.digest FROM holdfast.unique_keys AS keys
        WHERE keys.task = wanted.task AND keys.key = wanted.key
            -- A snapshot may be older than the claim or the end that freed a key: hold_keys sees it, or names the remedy.
            AND current_setting('transaction_isolation') = 'read committed'
            AND holdfast.holds_key(keys.job, keys.until, keys.until_started)
        LIMIT 1
    ) AS held ON true
),

items AS MATERIALIZED (
    SELECT
        item.id::uuid AS id, kind.task, kind.queue, coalesce(kind.key, '') AS key, kind.priority + kind.more AS priority, kind.delay, kind.run_at,
        kind.expires_in, kind.tags, kind.extra,
        kind.policy, kind.unique_key, coalesce(kind.state, 'available') AS state, asked.flow, item.payload
    FROM asked
    CROSS JOIN LATERAL (
        SELECT kind.*, coalesce((SELECT queues.priority FROM holdfast.queues AS queues WHERE queues.queue = kind.queue), 0) AS more
        FROM json_to_recordset(asked.kinds) AS kind (
            task text, queue text, key text, priority bigint, delay double precision, run_at timestamptz, expires_in double precision,
            tags text, extra text, policy text, unique_key text, state text, ids json, payloads json
        )
        OFFSET 0 -- the queue is looked up once for each kind, not for each job
    ) AS kind
    CROSS JOIN ROWS FROM (json_array_elements_text(kind.ids), json_array_elements_text(kind.payloads)) AS item (id, payload)
),

news AS MATERIALIZED (
    SELECT items.* FROM items
    WHERE NOT EXISTS (SELECT FROM wanted WHERE wanted.job = items.id AND wanted.holder IS NOT NULL)
),

verdict AS MATERIALIZED (
    SELECT
        asked.call, asked.now, EXISTS (SELECT FROM earlier) AS is_copy,
        asked.parent IS NOT NULL AND NOT EXISTS (SELECT FROM parent) AS is_lost,
        coalesce(asked.is_refused, false) OR EXISTS (SELECT FROM wanted WHERE wanted.held <> wanted.digest) AS is_refused
    FROM asked
    WHERE (SELECT count(*) FROM durable) >= 0
),

-- A job of that id exists already. Its id would be in two tables, or twice in one, where the error would abort a caller's transaction.
known AS MATERIALIZED (
    SELECT 1
    FROM verdict CROSS JOIN LATERAL (
        SELECT FROM holdfast.active WHERE id = ANY(ARRAY(SELECT news.id FROM news))
        UNION ALL
        SELECT FROM holdfast.finished WHERE id = ANY(ARRAY(SELECT news.id FROM news))
        UNION ALL
        SELECT FROM holdfast.pending WHERE id = ANY(ARRAY(SELECT news.id FROM news))
    ) AS job
    WHERE NOT (verdict.is_copy OR verdict.is_lost OR verdict.is_refused)
),

won AS MATERIALIZED (
    SELECT won.*
    FROM (
        SELECT
            array_agg(wanted.task ORDER BY wanted.task, wanted.key) AS tasks,
            array_agg(wanted.key ORDER BY wanted.task, wanted.key) AS keys,
            array_agg(wanted.job ORDER BY wanted.task, wanted.key) AS jobs,
            array_agg(wanted.digest ORDER BY wanted.task, wanted.key) AS digests,
            array_agg(wanted.period ORDER BY wanted.task, wanted.key) AS periods,
            array_agg(wanted.starts ORDER BY wanted.task, wanted.key) AS starts
        FROM verdict CROSS JOIN wanted
        WHERE wanted.holder IS NULL AND NOT (verdict.is_copy OR verdict.is_lost OR verdict.is_refused)
            AND NOT EXISTS (SELECT FROM known)
    ) AS free
    CROSS JOIN LATERAL holdfast.hold_keys(
        free.tasks, free.keys, free.jobs, free.digests, free.periods, free.starts
    ) AS taken
    CROSS JOIN LATERAL unnest(free.tasks, free.keys, taken.holders, taken.digests) AS won (task, key, job, digest)
),

holders AS MATERIALIZED (
    SELECT job, holder, held, held <> digest AS is_other FROM wanted WHERE holder IS NOT NULL
    UNION ALL
    SELECT wanted.job, won.job, won.digest, won.digest <> wanted.digest
    FROM wanted JOIN won ON won.task = wanted.task AND won.key = wanted.key
    WHERE won.job <> wanted.job
),

receipt AS (
    INSERT INTO holdfast.receipts (call, received_at, answer)
    SELECT verdict.call, verdict.now, CASE
        WHEN verdict.is_lost THEN '{"is_lost":true,"holders":[]}'
        WHEN EXISTS (SELECT FROM holders) THEN json_build_object('is_lost', false, 'holders', (
            SELECT json_agg(json_build_array(holders.job, holders.holder, encode(holders.held, 'hex'))) FROM holders
        ))::text
    END
    FROM verdict
    WHERE NOT verdict.is_copy AND NOT EXISTS (SELECT FROM known)
    ON CONFLICT DO NOTHING
    RETURNING answer
),

added AS MATERIALIZED (
    SELECT news.*, verdict.now
    FROM receipt CROSS JOIN verdict CROSS JOIN news
    WHERE NOT (verdict.is_lost OR verdict.is_refused OR EXISTS (SELECT FROM holders WHERE is_other))
        AND NOT EXISTS (SELECT FROM holders WHERE holders.job = news.id)
        AND NOT (news.flow IS NOT NULL AND EXISTS (SELECT FROM holders)) -- a workflow is inserted as a whole
),

stored AS (
    INSERT INTO holdfast.payloads (job, payload)
    SELECT body.job, coalesce(convert_to(body.payload, 'UTF8'), decode(body.hex, 'hex'))
    FROM asked CROSS JOIN json_to_recordset(asked.payloads) AS body (job uuid, payload text, hex text)
    JOIN added ON added.id = body.job
),

inserted AS (
    INSERT INTO holdfast.pending (
        id, task, queue, key, priority, available_at, claimable_until, created_at, expires_at, unique_key, tags, extra, policy, payload,
        state, flow
    )
    SELECT
        id, task, queue, key, priority, coalesce(run_at, now + delay * interval '1 second'),
        now + expires_in * interval '1 second', now, now + expires_in * interval '1 second',
        unique_key, tags, extra, policy, convert_to(payload, 'UTF8'), state, flow
    FROM added
)

SELECT
    CASE WHEN verdict.is_copy THEN (SELECT answer FROM earlier) ELSE (SELECT answer FROM receipt) END AS answer,
    EXISTS (SELECT FROM known) AS is_known,
    -- A copy of this call that was committed since.
    CASE
        WHEN NOT verdict.is_copy AND NOT EXISTS (SELECT FROM known) AND NOT EXISTS (SELECT FROM receipt) THEN holdfast.again()
    END AS again
FROM verdict;
