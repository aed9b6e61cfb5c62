-- Workflows: jobs that wait for other jobs. The id of a flow is that of its root: a job without code, or one that has waited for children.
-- A job that others depend on, or that depends on others itself, is the root of a flow, too. Any other plain job belongs to none.
-- While a job waits for others, its state in pending is "blocked". A paused flow holds its members for "pause".

ALTER TABLE holdfast.pending ADD COLUMN flow uuid;
ALTER TABLE holdfast.active ADD COLUMN flow uuid;
ALTER TABLE holdfast.finished ADD COLUMN flow uuid;

CREATE INDEX waiting_roots ON holdfast.pending (id) WHERE flow = id;
CREATE INDEX active_roots ON holdfast.active (id) WHERE flow = id;
-- Finished members have no time at which they may be deleted: they go with their root.
CREATE INDEX finished_roots ON holdfast.finished_other (delete_after) WHERE flow = id;

-- The row is the lock of its flow: every write that moves a member locks it first.
CREATE TABLE holdfast.flows (
    id uuid NOT NULL PRIMARY KEY,
    paused_at timestamptz,
    ended_for text, -- why all of it that has not finished is being cancelled
    deadline_at timestamptz
) WITH (fillfactor = 50);

-- What a job is in its flow. needs: the successes that it still requires; waits: its parents that have not ended. Both count only while
-- the job is blocked. is_suspended: then it waits for its children, and runs again after them; is_cancelled: then it ends after them.
CREATE TABLE holdfast.members (
    job uuid NOT NULL PRIMARY KEY,
    flow uuid NOT NULL,
    position integer NOT NULL,
    node text NOT NULL,
    required integer, -- how many parents must succeed; NULL: all
    on_failure text NOT NULL,
    is_gate boolean NOT NULL,
    inputs text, -- JSON; NULL: none
    needs integer NOT NULL,
    waits integer NOT NULL,
    is_suspended boolean NOT NULL DEFAULT false,
    is_cancelled boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX members_flow ON holdfast.members (flow, position);

-- tolerates: the child also counts a parent as a success that has ended in another way. is_child: the parent was added by the child, which
-- waits for it. parent_flow: the flow of the parent, if that is another one than the child's.
CREATE TABLE holdfast.edges (
    parent uuid NOT NULL,
    child uuid NOT NULL,
    tolerates boolean NOT NULL,
    is_child boolean NOT NULL,
    parent_flow uuid,
    PRIMARY KEY (parent, child)
);

CREATE INDEX edges_child ON holdfast.edges (child);
CREATE INDEX edges_parent_flow ON holdfast.edges (parent_flow) WHERE parent_flow IS NOT NULL;

-- The view of 0001, with what members of workflows are there.
CREATE OR REPLACE VIEW holdfast.jobs AS
SELECT
    id, state, NULL::uuid AS claim_id, claim_number, NULL::uuid AS lease, NULL::text AS worker, task, queue, key, priority,
    coalesce(flow IS NOT NULL AND (SELECT members.is_cancelled FROM holdfast.members AS members WHERE members.job = pending.id), false) AS cancel_requested,
    false AS is_stub, attempt, failures, crashes, created_at, available_at,
    NULL::timestamptz AS claimed_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, expires_at,
    unique_key, tags, extra, policy, stage, fraction, message, progress_at, NULL::text AS reason, error, rescue, hook_due_at,
    awaits, nullif(held_for, 'pause') AS held_for, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = pending.id)) AS payload,
    NULL::bytea AS result, 'pending' AS place, flow, CASE
        WHEN flow IS NOT NULL THEN (
            SELECT json_build_array(node, required, on_failure, is_gate::integer, inputs::json, needs, waits, coalesce(state = 'held' AND held_for = 'pause', false)::integer, is_suspended::integer)::text
            FROM holdfast.members AS members WHERE members.job = pending.id
        )
    END AS member
FROM holdfast.pending
UNION ALL
SELECT
    id, CASE WHEN has_begun THEN 'running' ELSE state END, claim_id, claim_number, lease, worker, task, queue, key, priority,
    cancel_requested, false, attempt + has_begun::integer, failures, crashes,
    created_at, available_at, claimed_at, CASE WHEN has_begun THEN claimed_at ELSE started_at END, NULL::timestamptz, expires_at,
    unique_key, tags, extra, policy, stage,
    fraction, message, progress_at, NULL::text, error, rescue, hook_due_at, NULL::text, NULL::text, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = active.id)),
    NULL::bytea, 'active', flow, CASE
        WHEN flow IS NOT NULL THEN (
            SELECT json_build_array(node, required, on_failure, is_gate::integer, inputs::json, needs, waits, 0, is_suspended::integer)::text
            FROM holdfast.members AS members WHERE members.job = active.id
        )
    END
FROM holdfast.active CROSS JOIN LATERAL (
    SELECT active.state = 'claimed' AND active.claim_number <= coalesce((
        SELECT lease_starts.started FROM holdfast.lease_starts WHERE lease_starts.lease = active.lease
    ), 0) AS has_begun
) AS begun
UNION ALL
SELECT
    id, state, claim_id, claim_number, NULL::uuid, worker, task, queue, key, priority, cancel_requested, is_stub, attempt,
    failures, crashes, created_at, available_at, claimed_at, started_at, finished_at, expires_at, unique_key, tags, extra, policy, stage, fraction,
    message, progress_at, reason, error, rescue, hook_due_at, NULL::text, NULL::text, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = finished.id)),
    result, 'finished', flow, CASE
        WHEN flow IS NOT NULL THEN (
            SELECT json_build_array(node, required, on_failure, is_gate::integer, inputs::json, needs, waits, 0, is_suspended::integer)::text
            FROM holdfast.members AS members WHERE members.job = finished.id
        )
    END
FROM holdfast.finished;
