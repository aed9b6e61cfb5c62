-- plain_jobs(condition): insert the jobs of :call without a unique key or a parent, and its receipt, if the condition holds.
asked AS MATERIALIZED (
    SELECT call, kinds, payloads, is_durable, clock_timestamp() AS now
    FROM json_to_record(:call::json) AS asked (call uuid, kinds json, payloads json, is_durable boolean)
    WHERE condition
),

-- synchronous_commit is raised, never lowered.
durable AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'on', true) FROM asked
    WHERE is_durable AND current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
),

receipt AS (
    INSERT INTO holdfast.receipts (call, received_at)
    SELECT call, now FROM asked WHERE (SELECT count(*) FROM durable) >= 0
    ON CONFLICT DO NOTHING
    RETURNING call
),

stored AS (
    INSERT INTO holdfast.payloads (job, payload)
    SELECT body.job, coalesce(convert_to(body.payload, 'UTF8'), decode(body.hex, 'hex'))
    FROM receipt CROSS JOIN asked CROSS JOIN json_to_recordset(asked.payloads) AS body (job uuid, payload text, hex text)
),

added AS (
    INSERT INTO holdfast.pending (id, task, queue, key, priority, available_at, claimable_until, created_at, expires_at, tags, extra, policy, payload)
    SELECT
        item.id::uuid, kind.task, kind.queue, coalesce(kind.key, ''), kind.priority + kind.more,
        coalesce(kind.run_at, asked.now + kind.delay * interval '1 second'),
        asked.now + kind.expires_in * interval '1 second', asked.now, asked.now + kind.expires_in * interval '1 second',
        kind.tags, kind.extra, kind.policy, convert_to(item.payload, 'UTF8')
    FROM receipt
    CROSS JOIN asked
    CROSS JOIN LATERAL (
        SELECT kind.*, coalesce((SELECT queues.priority FROM holdfast.queues AS queues WHERE queues.queue = kind.queue), 0) AS more
        FROM json_to_recordset(asked.kinds) AS kind (
            task text, queue text, key text, priority bigint, delay double precision, run_at timestamptz, expires_in double precision,
            tags text, extra text, policy text, ids json, payloads json
        )
        OFFSET 0 -- the queue is looked up once for each kind, not for each job
    ) AS kind
    CROSS JOIN ROWS FROM (json_array_elements_text(kind.ids), json_array_elements_text(kind.payloads)) AS item (id, payload)
)
