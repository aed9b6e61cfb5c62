-- Grant the rights of each role. To be run again after each change of the schema; repeating it is harmless. Objects that the owner
-- makes later, such as partitions, are granted with it.
GRANT USAGE ON SCHEMA holdfast TO holdfast_enqueue, holdfast_work, holdfast_read;

-- Enough for enqueue.sql and the check of the schema at each connection. No payload can be read. One column of active and of pending may be
-- written, because locking a row needs that right. A unique key whose time is over is deleted by the job that takes it.
GRANT SELECT ON holdfast.versions TO holdfast_enqueue;
GRANT SELECT (queue, priority) ON holdfast.queues TO holdfast_enqueue;
GRANT SELECT, INSERT ON holdfast.receipts TO holdfast_enqueue;
GRANT SELECT, INSERT, DELETE ON holdfast.unique_keys TO holdfast_enqueue;
GRANT SELECT (id, task, unique_key, flow, claim_number), INSERT, UPDATE (message) ON holdfast.pending TO holdfast_enqueue;
GRANT SELECT (id, claim_id, claim_number, task, unique_key), UPDATE (message) ON holdfast.active TO holdfast_enqueue;
GRANT SELECT (id) ON holdfast.finished TO holdfast_enqueue;
GRANT INSERT ON holdfast.payloads TO holdfast_enqueue;
GRANT SELECT (id), INSERT ON holdfast.flows TO holdfast_enqueue;
GRANT INSERT ON holdfast.members, holdfast.edges TO holdfast_enqueue;

GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO holdfast_read, holdfast_work;
GRANT INSERT, UPDATE, DELETE ON
    holdfast.pending, holdfast.active, holdfast.finished, holdfast.finished_other, holdfast.payloads, holdfast.attempts,
    holdfast.attempts_other, holdfast.receipts, holdfast.unique_keys, holdfast.queues, holdfast.limits, holdfast.rates,
    holdfast.schedules, holdfast.leases, holdfast.lease_starts, holdfast.beats, holdfast.steps, holdfast.signals,
    holdfast.flows, holdfast.members, holdfast.edges, holdfast.audits, holdfast.minutes
TO holdfast_work;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO holdfast_work;
GRANT EXECUTE ON FUNCTION holdfast.make_partitions TO holdfast_work;

ALTER DEFAULT PRIVILEGES FOR ROLE holdfast_own IN SCHEMA holdfast GRANT SELECT ON TABLES TO holdfast_read, holdfast_work;
