-- One job without a unique key or a parent, and the receipt of its call; when either is there already, the error says so.
--
-- What enqueue_plain.sql does, without JSON and without a question: most calls enqueue one job, and wait for it. $1 call, $2 id,
-- $3 task, $4 queue, $5 priority, $6 when it is due or NULL: $7 seconds from now, $8 seconds until it expires, $9 tags,
-- $10 policy, $11 payload.
WITH receipt AS (
    INSERT INTO holdfast.receipts (call, received_at) VALUES ($1, clock_timestamp())
)

INSERT INTO holdfast.pending (id, task, queue, priority, available_at, claimable_until, created_at, expires_at, tags, policy, payload)
SELECT
    $2, $3, $4, $5, coalesce($6, now + $7::double precision * interval '1 second'),
    now + $8::double precision * interval '1 second', now, now + $8::double precision * interval '1 second', $9, $10, $11
FROM (SELECT clock_timestamp() AS now) AS clock;
