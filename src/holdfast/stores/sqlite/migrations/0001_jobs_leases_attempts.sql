-- Jobs, the leases that own them, and the records of attempts.
-- One table holds pending, active and finished jobs: SQLite moves a row between tables no faster than it updates one.
-- Instants ending in _at are microseconds since the epoch, except those of leases: see there. started_mono and last_moved_at
-- are microseconds of the monotonic clock of the kernel that runs the job: no step of a wall clock makes a job overdue.
-- "main" stands for the name under which a connection has the file.

CREATE TABLE main.holdfast_schema (version INTEGER NOT NULL); -- the file's own marks belong to the application it may share
INSERT INTO main.holdfast_schema (version) VALUES (0);

CREATE TABLE main.holdfast_jobs (
    id BLOB NOT NULL PRIMARY KEY,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    key TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL,
    state TEXT NOT NULL, -- pending: available, blocked, held; active: claimed, running; finished: completed, failed, cancelled
    claim_id BLOB, -- with claim_number: the token; NULL while no worker owns the job
    claim_number INTEGER NOT NULL DEFAULT 0,
    lease BLOB, -- only while active
    worker TEXT,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0, -- stays on the finished row
    created_at INTEGER NOT NULL,
    available_at INTEGER NOT NULL, -- "scheduled" is an available job whose time has not come
    claimed_at INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    progress_at INTEGER,
    started_mono INTEGER, -- of a task without limits perhaps unknown
    last_moved_at INTEGER,
    report_order INTEGER NOT NULL DEFAULT 0, -- the number of this attempt's latest report
    expires_at INTEGER,
    -- For a waiting job. NULL: any claim may take it. 0: one more crash ends it by the policy of its last claim, so it runs isolated.
    -- Else the instant at which it expires, because no attempt was ever started.
    claimable_until INTEGER,
    delete_after INTEGER, -- only once finished
    hook_due_at INTEGER, -- the earliest time of the rescue hook; NULL: no hook is due
    awaits TEXT, -- only while available: the signal that makes the job due; "blocked" is such a job that is not due yet
    held_for TEXT, -- only while held
    is_stub INTEGER NOT NULL DEFAULT 0,
    unique_key TEXT,
    stage TEXT,
    fraction REAL,
    message TEXT,
    reason TEXT,
    error TEXT,
    rescue TEXT, -- the last one
    tags TEXT,
    extra TEXT, -- JSON of what few jobs have: headers
    policy TEXT NOT NULL,
    checkpoint BLOB,
    result BLOB,
    payload BLOB, -- NULL: in payloads
    flow BLOB -- the workflow to which the job belongs
);

-- A lane is (queue, key), a range (task, priority, queue, key): a claim walks the ranges of its tasks and reads no others.
-- The last column lets a claim decide from the index, so that it reads from the table only the jobs that it takes.
CREATE INDEX main.holdfast_waiting ON holdfast_jobs (task, priority, queue, key, available_at, id, claimable_until)
WHERE state = 'available';
CREATE INDEX main.holdfast_held ON holdfast_jobs (queue) WHERE state = 'held';
CREATE INDEX main.holdfast_blocked ON holdfast_jobs (queue) WHERE state = 'blocked';
CREATE INDEX main.holdfast_unfinished_roots ON holdfast_jobs (id)
    WHERE flow = id AND state IN ('available', 'blocked', 'held', 'claimed', 'running');
CREATE INDEX main.holdfast_active_lease ON holdfast_jobs (lease, claim_number) WHERE state IN ('claimed', 'running');
CREATE INDEX main.holdfast_active_cancelled ON holdfast_jobs (lease) WHERE cancel_requested AND state IN ('claimed', 'running');
CREATE INDEX main.holdfast_expiring ON holdfast_jobs (claimable_until, id) WHERE claimable_until > 0 AND state = 'available';
CREATE INDEX main.holdfast_prunable ON holdfast_jobs (delete_after) WHERE delete_after IS NOT NULL;
CREATE INDEX main.holdfast_owed_hooks ON holdfast_jobs (task, hook_due_at, id)
WHERE hook_due_at IS NOT NULL AND state IN ('held', 'completed', 'failed', 'cancelled');

-- At most one unfinished job of a task has a given key. The index is the list of keys: it cannot drift from the jobs, and jobs without
-- a key cost nothing. Each writer looks for the key first; no query relies on the index's error.
CREATE UNIQUE INDEX main.holdfast_unique_keys ON holdfast_jobs (task, unique_key)
WHERE unique_key IS NOT NULL AND state IN ('available', 'blocked', 'held', 'claimed', 'running');

-- Payloads too long to be copied each time their job moves: with this table, 4 KB jobs run at twice the rate.
CREATE TABLE main.holdfast_payloads (
    job BLOB NOT NULL PRIMARY KEY,
    payload BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE main.holdfast_attempts (
    job BLOB NOT NULL,
    claim_number INTEGER NOT NULL,
    claim_id BLOB NOT NULL,
    requested_state TEXT NOT NULL, -- where the transition asked to go, before any mark for cancellation
    outcome TEXT, -- NULL: the code never ran; kept only to answer the same release sent again
    attempt INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    signal TEXT,
    error TEXT,
    stacks TEXT,
    late_result BLOB,
    PRIMARY KEY (job, claim_number, claim_id)
);

-- A job may snooze or be released without limit. Of such attempts only enough is kept to answer the same settle sent again.
CREATE INDEX main.holdfast_brief ON holdfast_attempts (ended_at, job, claim_number)
WHERE requested_state = 'available' AND coalesce(outcome, 'released') IN ('released', 'snoozed');

-- place: the number of the step in the order of calls. result: JSON; NULL: a wait whose timeout passed.
CREATE TABLE main.holdfast_steps (
    job BLOB NOT NULL,
    name TEXT NOT NULL,
    nth INTEGER NOT NULL,
    place INTEGER NOT NULL,
    is_sequential INTEGER NOT NULL,
    result BLOB,
    PRIMARY KEY (job, name, nth)
);

-- The signals that jobs have not consumed.
CREATE TABLE main.holdfast_signals (
    place INTEGER PRIMARY KEY,
    job BLOB NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL
);
CREATE INDEX main.holdfast_signals_job ON holdfast_signals (job, name, place);

-- Receipts are kept in the order in which they came, so that prune finds the old ones without an index.
CREATE TABLE main.holdfast_receipts (
    place INTEGER PRIMARY KEY,
    call BLOB NOT NULL UNIQUE,
    received_at INTEGER NOT NULL,
    answer TEXT -- NULL: all jobs were inserted, and nothing else was asked; or the call sent a signal
);

-- A queue has a row while it is paused or has settings. key_weights: JSON, NULL while it has no settings.
CREATE TABLE main.holdfast_queues (
    queue TEXT NOT NULL PRIMARY KEY,
    paused_at INTEGER,
    priority INTEGER NOT NULL DEFAULT 0,
    weight INTEGER NOT NULL DEFAULT 1,
    key_weights TEXT,
    origin TEXT -- JSON
) WITHOUT ROWID;

-- plan: JSON of the limit. scope: all, task or queue.
CREATE TABLE main.holdfast_limits (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    plan TEXT NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;

-- Workflows. The id of a flow is that of its root: a job without code, or one that has waited for children. A job that others depend on, or
-- that depends on others itself, is the root of a flow, too.
CREATE TABLE main.holdfast_flows (
    id BLOB NOT NULL PRIMARY KEY,
    paused_at INTEGER,
    ended_for TEXT, -- why all of it that has not finished is being cancelled
    deadline_at INTEGER
) WITHOUT ROWID;

-- What a job is in its workflow. needs: the successes that it still requires; waits: its parents that have not ended. Both count only
-- while the job is blocked.
CREATE TABLE main.holdfast_members (
    job BLOB NOT NULL PRIMARY KEY,
    flow BLOB NOT NULL,
    position INTEGER NOT NULL,
    node TEXT NOT NULL,
    required INTEGER, -- how many parents must succeed; NULL: all
    on_failure TEXT NOT NULL,
    is_gate INTEGER NOT NULL,
    inputs TEXT, -- JSON; NULL: none
    needs INTEGER NOT NULL DEFAULT 0,
    waits INTEGER NOT NULL DEFAULT 0,
    is_paused INTEGER NOT NULL DEFAULT 0, -- held because its flow is paused
    is_suspended INTEGER NOT NULL DEFAULT 0 -- while blocked: it waits for its children, and runs again after them
) WITHOUT ROWID;

CREATE INDEX main.holdfast_members_flow ON holdfast_members (flow, position);
CREATE INDEX main.holdfast_members_paused ON holdfast_members (flow) WHERE is_paused;

-- tolerates: the child also counts a parent as a success that has ended in another way. is_child: the child of the edge has added the
-- parent of the edge while it ran. parent_flow: the flow of the parent, if that is another one than the child's.
CREATE TABLE main.holdfast_edges (
    parent BLOB NOT NULL,
    child BLOB NOT NULL,
    tolerates INTEGER NOT NULL,
    is_child INTEGER NOT NULL DEFAULT 0,
    parent_flow BLOB,
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;

CREATE INDEX main.holdfast_edges_child ON holdfast_edges (child);
CREATE INDEX main.holdfast_edges_parent_flow ON holdfast_edges (parent_flow) WHERE parent_flow IS NOT NULL;

-- From when on the rate of a scope is unused, or that of one of its keys.
CREATE TABLE main.holdfast_rates (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    is_key INTEGER NOT NULL,
    key TEXT NOT NULL,
    ready_at INTEGER NOT NULL,
    PRIMARY KEY (scope, name, is_key, key)
) WITHOUT ROWID;

-- plan: JSON. version is another one after each change; change: the id of the last one. last_job: the job of the last tick that fired.
CREATE TABLE main.holdfast_schedules (
    name TEXT NOT NULL PRIMARY KEY,
    plan TEXT NOT NULL,
    next_at INTEGER NOT NULL,
    last_tick INTEGER,
    last_job BLOB,
    paused_at INTEGER,
    version INTEGER NOT NULL,
    change BLOB NOT NULL
) WITHOUT ROWID;

-- renewed_at, previous_renewal_at and expires_at are microseconds of the monotonic clock that boot and clock name.
CREATE TABLE main.holdfast_leases (
    id BLOB NOT NULL PRIMARY KEY,
    worker TEXT NOT NULL,
    process TEXT NOT NULL,
    timing TEXT NOT NULL,
    ttl INTEGER NOT NULL,
    queues TEXT NOT NULL,
    tasks TEXT NOT NULL,
    grace INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    is_isolated INTEGER NOT NULL,
    declares TEXT NOT NULL DEFAULT '[]',
    boot TEXT NOT NULL,
    clock TEXT NOT NULL,
    opened_at INTEGER NOT NULL, -- wall clock
    renewed_at INTEGER NOT NULL,
    previous_renewal_at INTEGER,
    expires_at INTEGER NOT NULL,
    renewals INTEGER NOT NULL DEFAULT 1,
    is_draining INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER, -- wall clock
    end_reason TEXT,
    started INTEGER NOT NULL DEFAULT 0, -- the claim number through which its jobs have started together
    voids INTEGER NOT NULL DEFAULT 0 -- how often it lost the right to start jobs that it had claimed
);

CREATE INDEX main.holdfast_alive ON holdfast_leases (expires_at) WHERE ended_at IS NULL;

-- The history of workers: what their supervisors knew with some of their beats. loop_lag in microseconds.
CREATE TABLE main.holdfast_beats (
    worker TEXT NOT NULL,
    at INTEGER NOT NULL,
    running INTEGER,
    claimed INTEGER,
    slots INTEGER NOT NULL,
    memory INTEGER, -- bytes
    loop_lag INTEGER,
    answered_at INTEGER,
    delete_after INTEGER NOT NULL
);

CREATE INDEX main.holdfast_beats_worker ON holdfast_beats (worker, at);
CREATE INDEX main.holdfast_beats_prunable ON holdfast_beats (delete_after);

-- The last claim number issued; it never decreases.
CREATE TABLE main.holdfast_sequence (claim_number INTEGER NOT NULL);
INSERT INTO main.holdfast_sequence (claim_number) VALUES (0);
