-- Jobs, who holds them, and what is remembered of each attempt.
-- One table for all three places: SQLite moves a row between tables no faster than it updates one.
-- Instants ending in _at are microseconds since the epoch, except those of leases: see there.

CREATE TABLE jobs (
    id BLOB NOT NULL PRIMARY KEY,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL, -- pending: available, held; active: claimed, running; finished: completed, failed, cancelled
    claim BLOB, -- with number: the token; NULL while nobody owns the job
    number INTEGER NOT NULL DEFAULT 0,
    lease BLOB, -- only while active
    worker TEXT,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    is_marked INTEGER NOT NULL DEFAULT 0, -- for cancellation; stays on the finished row
    created_at INTEGER NOT NULL,
    available_at INTEGER NOT NULL, -- "scheduled" is an available job whose time has not come
    claimed_at INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    progress_at INTEGER,
    stage TEXT,
    fraction REAL,
    message TEXT,
    reason TEXT,
    error TEXT,
    tags TEXT,
    policy TEXT NOT NULL,
    checkpoint BLOB,
    result BLOB,
    payload BLOB -- NULL: in bodies
);

-- A line is (task, queue, priority): a claim walks the lines it knows and never sees the others.
CREATE INDEX waiting ON jobs (task, queue, priority, available_at, id) WHERE state = 'available';
CREATE INDEX active ON jobs (lease, number) WHERE state IN ('claimed', 'running');
CREATE INDEX marked ON jobs (lease) WHERE is_marked AND state IN ('claimed', 'running');

-- Payloads too long to be copied each time their job moves: 4 KB jobs run at twice the rate.
CREATE TABLE bodies (
    job BLOB NOT NULL PRIMARY KEY,
    payload BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE attempts (
    job BLOB NOT NULL,
    number INTEGER NOT NULL,
    claim BLOB NOT NULL,
    sent_to TEXT NOT NULL, -- where the transition asked to go, before any mark for cancellation
    outcome TEXT, -- NULL: the code never ran; kept only to answer the same release sent again
    attempt INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    signal TEXT,
    error TEXT,
    stacks TEXT,
    late_result BLOB,
    PRIMARY KEY (job, number, claim)
);

CREATE TABLE receipts (
    call BLOB NOT NULL PRIMARY KEY,
    received_at INTEGER NOT NULL
) WITHOUT ROWID;

-- beaten_at, previous_at and expires_at are microseconds of the monotonic clock that boot and clock name.
CREATE TABLE leases (
    id BLOB NOT NULL PRIMARY KEY,
    worker TEXT NOT NULL,
    process TEXT NOT NULL,
    timing TEXT NOT NULL,
    ttl INTEGER NOT NULL,
    queues TEXT NOT NULL,
    tasks TEXT NOT NULL,
    boot TEXT NOT NULL,
    clock TEXT NOT NULL,
    opened_at INTEGER NOT NULL, -- wall clock
    beaten_at INTEGER NOT NULL,
    previous_at INTEGER,
    expires_at INTEGER NOT NULL,
    beats INTEGER NOT NULL DEFAULT 1,
    is_draining INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER, -- wall clock
    why TEXT
);

CREATE INDEX alive ON leases (expires_at) WHERE ended_at IS NULL;

-- The last claim number given out; it never goes back.
CREATE TABLE sequence (number INTEGER NOT NULL);
INSERT INTO sequence (number) VALUES (0);
