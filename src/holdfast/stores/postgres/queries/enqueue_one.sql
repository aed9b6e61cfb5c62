-- One job without a unique key or a parent, and the receipt of its call; when the receipt is there already, nothing.
--
-- What enqueue_plain.sql does, without JSON: most calls enqueue one job, and wait for it. $1 call, $2 id, $3 task, $4 queue,
-- $5 priority, $6 when it is due or NULL: $7 seconds from now, $8 seconds until it expires, $9 tags, $10 policy, $11 payload.
WITH receipt AS (
    INSERT INTO holdfast.receipts (call, received_at) VALUES ($1, clock_timestamp())
    ON CONFLICT DO NOTHING
    RETURNING received_at AS now
),

added AS (
    INSERT INTO holdfast.pending (id, task, queue, priority, available_at, proviso, created_at, expires_at, tags, policy, payload)
    SELECT
        $2, $3, $4, $5, coalesce($6, now + $7::double precision * interval '1 second'),
        now + $8::double precision * interval '1 second', now, now + $8::double precision * interval '1 second', $9, $10, $11
    FROM receipt
)

-- A copy is answered as the first one was.
SELECT
    CASE WHEN NOT EXISTS (SELECT FROM receipt) THEN (SELECT answer FROM holdfast.receipts WHERE call = $1) END AS answer,
    false AS is_known, NULL::boolean AS again;
