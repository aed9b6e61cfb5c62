-- Insert one job without a unique key or a parent, and the receipt of its call; an error reports that either exists already.
--
-- The same as enqueue_plain.sql, without JSON and without checks before the write: most calls enqueue one job, and wait for it.
-- :call, :id, :task, :queue, :key, :priority; :run_at, when it is due, NULL: :delay seconds from now; :expires_in, in seconds;
-- :tags, :extra, :policy, :payload.
WITH receipt AS (
    INSERT INTO holdfast.receipts (call, received_at) VALUES (:call, clock_timestamp())
)

INSERT INTO holdfast.pending (
    id, task, queue, key, priority, available_at, claimable_until, created_at, expires_at, tags, extra, policy, payload
)
SELECT
    :id, :task, :queue, :key,
    :priority::bigint + coalesce((SELECT queues.priority FROM holdfast.queues AS queues WHERE queues.queue = :queue), 0),
    coalesce(:run_at, now + :delay::double precision * interval '1 second'),
    now + :expires_in::double precision * interval '1 second', now, now + :expires_in::double precision * interval '1 second',
    :tags, :extra, :policy, :payload
FROM (SELECT clock_timestamp() AS now) AS clock;
