-- Jobs in their three places, who holds them, and what is remembered of each attempt.
-- A job moves by DELETE … RETURNING that feeds an INSERT in one statement: the hot tables stay as small as what waits and
-- what runs, and no history slows them down. "holdfast" stands for the schema the App names.

CREATE TABLE holdfast.versions (
    version integer NOT NULL PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One for all jobs: what a claim hands out grows with each claim of a job, whoever makes it.
CREATE SEQUENCE holdfast.claim_numbers AS bigint;

CREATE TABLE holdfast.pending (
    id uuid NOT NULL PRIMARY KEY,
    task text NOT NULL,
    queue text NOT NULL,
    priority bigint NOT NULL,
    state text NOT NULL DEFAULT 'available', -- or held; "scheduled" is an available job whose time has not come
    available_at timestamptz NOT NULL,
    -- NULL: anybody may take it; -infinity: by the policy of its last claim one more crash ends it, so it runs alone;
    -- else until when, because no attempt was ever started and it expires then.
    proviso timestamptz,
    number bigint NOT NULL DEFAULT 0, -- of its last claim
    attempt integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    unique_key text,
    tags text,
    policy text NOT NULL,
    stage text,
    fraction double precision,
    message text,
    progress_at timestamptz,
    error text,
    rescue text, -- by whom it was taken from whom, until its next attempt has begun
    checkpoint bytea,
    payload bytea -- NULL: in bodies
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- A line is (task, queue, priority): a claim walks the lines it knows and never sees the others.
CREATE INDEX waiting ON holdfast.pending (task, queue, priority, available_at, id, proviso) WHERE state = 'available';
CREATE INDEX expiring ON holdfast.pending (proviso, id) WHERE proviso > '-infinity' AND state = 'available';

CREATE TABLE holdfast.active (
    id uuid NOT NULL PRIMARY KEY,
    claim uuid NOT NULL, -- with number: the token
    number bigint NOT NULL,
    lease uuid NOT NULL,
    worker text NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    priority bigint NOT NULL,
    state text NOT NULL, -- claimed, running
    is_marked boolean NOT NULL DEFAULT false, -- for cancellation
    attempt integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    created_at timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    claimed_at timestamptz NOT NULL,
    started_at timestamptz,
    expires_at timestamptz,
    unique_key text,
    tags text,
    policy text NOT NULL,
    progress_within double precision, -- of the policy, in seconds
    timeout double precision,
    stage text,
    fraction double precision,
    message text,
    progress_at timestamptz,
    moved_at timestamptz, -- progress of this attempt; progress_at may be of an earlier one
    error text,
    rescue text,
    checkpoint bytea,
    payload bytea
) WITH (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX holding ON holdfast.active (lease, number);
CREATE INDEX marked ON holdfast.active (lease) WHERE is_marked;
CREATE INDEX limited ON holdfast.active (started_at) WHERE progress_within IS NOT NULL OR timeout IS NOT NULL;

-- By the day on which a row may be forgotten, so that forgetting is dropping a partition. Rows that may go sooner than in
-- a day, or later than partitions are made for, live in the default one and are deleted one by one.
CREATE TABLE holdfast.finished (
    id uuid NOT NULL,
    forget_at timestamptz NOT NULL,
    state text NOT NULL, -- completed, failed, cancelled
    claim uuid,
    number bigint NOT NULL,
    worker text,
    task text NOT NULL,
    queue text NOT NULL,
    priority bigint NOT NULL,
    is_marked boolean NOT NULL,
    is_stub boolean NOT NULL DEFAULT false,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    created_at timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    expires_at timestamptz,
    unique_key text,
    tags text,
    policy text NOT NULL,
    stage text,
    fraction double precision,
    message text,
    progress_at timestamptz,
    reason text,
    error text,
    rescue text,
    checkpoint bytea,
    payload bytea,
    result bytea
) PARTITION BY RANGE (forget_at);

CREATE INDEX finished_id ON holdfast.finished (id);
CREATE TABLE holdfast.finished_other PARTITION OF holdfast.finished DEFAULT;
CREATE INDEX finished_other_forget_at ON holdfast.finished_other (forget_at);

-- Payloads too long to be copied each time their job moves.
CREATE TABLE holdfast.bodies (
    job uuid NOT NULL PRIMARY KEY,
    payload bytea NOT NULL
);

-- Keyed by the token. Without a day to be forgotten on while their job is unfinished; they get their job's when it ends.
CREATE TABLE holdfast.attempts (
    job uuid NOT NULL,
    number bigint NOT NULL,
    claim uuid NOT NULL,
    forget_at timestamptz,
    sent_to text NOT NULL, -- where the transition asked to go, before any mark for cancellation
    outcome text, -- NULL: the code never ran; kept only to answer the same release sent again
    attempt integer NOT NULL,
    worker text NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    signal text,
    error text,
    stacks text,
    late_result bytea
) PARTITION BY RANGE (forget_at);

CREATE INDEX attempts_job ON holdfast.attempts (job, number);
CREATE TABLE holdfast.attempts_other PARTITION OF holdfast.attempts DEFAULT;

-- A job may snooze, or be released, for ever: of that only so much is kept as answers the same settle sent again.
CREATE INDEX attempts_brief ON holdfast.attempts_other (ended_at)
WHERE sent_to = 'available' AND (outcome IS NULL OR outcome IN ('released', 'snoozed'));

CREATE TABLE holdfast.receipts (
    call uuid NOT NULL PRIMARY KEY,
    received_at timestamptz NOT NULL,
    answer text -- NULL: all jobs were inserted, and nothing else was asked
);
CREATE INDEX received ON holdfast.receipts USING brin (received_at) WITH (autosummarize = true);

-- One unfinished job of a task has a key.
CREATE TABLE holdfast.unique_keys (
    task text NOT NULL,
    key text NOT NULL,
    job uuid NOT NULL,
    PRIMARY KEY (task, key)
);

CREATE TABLE holdfast.paused (
    queue text NOT NULL PRIMARY KEY,
    paused_at timestamptz NOT NULL
);

CREATE TABLE holdfast.leases (
    id uuid NOT NULL PRIMARY KEY,
    worker text NOT NULL,
    process text NOT NULL,
    timing text NOT NULL,
    ttl double precision NOT NULL, -- seconds
    grace double precision NOT NULL, -- seconds
    queues text NOT NULL,
    tasks text NOT NULL,
    slots integer NOT NULL,
    is_alone boolean NOT NULL,
    opened_at timestamptz NOT NULL,
    beaten_at timestamptz NOT NULL,
    previous_at timestamptz,
    expires_at timestamptz NOT NULL,
    beats bigint NOT NULL DEFAULT 1,
    is_draining boolean NOT NULL DEFAULT false,
    ended_at timestamptz,
    why text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 100);
