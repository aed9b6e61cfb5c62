-- Tables of pending, active and finished jobs, the leases that own them, and the records of attempts.
-- A job moves by DELETE … RETURNING that feeds an INSERT in one statement. So the hot tables stay as small as the jobs that wait and
-- run, and no history slows them down. "holdfast" stands for the schema that the App names.
-- Indexed strings have the collation "C". An upgrade of the C library changes the order of other collations, and jobs would be hidden
-- behind an index that is not sorted any more.
-- size: one migration, so that its objects are made together
-- Tables without a key have REPLICA IDENTITY FULL: a publication of all tables would else refuse each UPDATE and DELETE. Without
-- logical replication it costs nothing.

CREATE TABLE holdfast.versions (
    version integer NOT NULL PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One sequence for all jobs: the claim number grows with each claim of a job, by any worker.
CREATE SEQUENCE holdfast.claim_numbers AS bigint;

CREATE TABLE holdfast.pending (
    id uuid NOT NULL PRIMARY KEY,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL DEFAULT '',
    priority bigint NOT NULL,
    -- or held; an available job whose time has not come is "scheduled", or "blocked" if it awaits a signal
    state text NOT NULL DEFAULT 'available',
    available_at timestamptz NOT NULL,
    -- NULL: any claim may take it. -infinity: one more crash ends it by the policy of its last claim, so it runs isolated.
    -- Else the instant at which it expires, because no attempt was ever started.
    claimable_until timestamptz,
    claim_number bigint NOT NULL DEFAULT 0, -- of its last claim
    attempt integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    unique_key text COLLATE "C",
    tags text,
    extra text, -- JSON of what few jobs have: headers
    policy text NOT NULL,
    stage text,
    fraction double precision,
    message text,
    progress_at timestamptz,
    error text,
    rescue text, -- the last one
    hook_due_at timestamptz, -- the earliest time of the rescue hook; NULL: no hook is due
    awaits text, -- only while available: the signal that makes the job due
    held_for text, -- only while held
    checkpoint bytea,
    payload bytea -- NULL: in payloads
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- A range is (task, priority, queue, key): a claim walks the ranges of its tasks and reads no others. Priority comes before the lane,
-- (queue, key), because claims serve the lanes of one priority in turn.
CREATE INDEX waiting ON holdfast.pending (task, priority, queue, key, available_at, id, claimable_until) WHERE state = 'available';
CREATE INDEX pending_owed_hooks ON holdfast.pending (task, hook_due_at, id) WHERE hook_due_at IS NOT NULL AND state = 'held';
CREATE INDEX expiring ON holdfast.pending (claimable_until, id) WHERE claimable_until > '-infinity' AND state = 'available';

CREATE TABLE holdfast.active (
    id uuid NOT NULL, -- no constraint: neither a claim nor a settle can ever break one
    claim_id uuid NOT NULL, -- with claim_number: the token
    claim_number bigint NOT NULL,
    lease uuid NOT NULL,
    worker text NOT NULL,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL DEFAULT '',
    priority bigint NOT NULL,
    state text NOT NULL, -- claimed, running
    cancel_requested boolean NOT NULL DEFAULT false,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    created_at timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    claimed_at timestamptz NOT NULL,
    started_at timestamptz,
    expires_at timestamptz,
    unique_key text COLLATE "C",
    tags text,
    extra text,
    policy text NOT NULL,
    progress_within double precision, -- of the policy, in seconds
    timeout double precision,
    stage text,
    fraction double precision,
    message text,
    progress_at timestamptz,
    report_order bigint NOT NULL DEFAULT 0, -- the number of the latest report
    last_moved_at timestamptz, -- progress of this attempt; progress_at may be of an earlier one
    error text,
    rescue text,
    hook_due_at timestamptz,
    is_counted boolean NOT NULL DEFAULT false, -- it takes a slot of the limits that count it
    checkpoint bytea,
    payload bytea
) WITH (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX active_id ON holdfast.active (id);
CREATE INDEX active_lease ON holdfast.active (lease, claim_number);
CREATE INDEX active_cancelled ON holdfast.active (lease) WHERE cancel_requested;
CREATE INDEX active_deadline ON holdfast.active (claimed_at) WHERE progress_within IS NOT NULL OR timeout IS NOT NULL;
CREATE INDEX counted ON holdfast.active (task, queue, key) WHERE is_counted;
ALTER TABLE holdfast.active REPLICA IDENTITY FULL;

-- The first and the last day that have partitions, which are made ahead.
CREATE TABLE holdfast.partition_days (
    first date NOT NULL,
    last date NOT NULL
);
INSERT INTO holdfast.partition_days (first, last) VALUES ('-infinity', '-infinity');
ALTER TABLE holdfast.partition_days REPLICA IDENTITY FULL;

-- Partitioned by the day (UTC) on which a row may be deleted, so that deleting rows is dropping a partition. Rows that may be deleted
-- within a day, or on a day without a partition, have -infinity and are deleted one by one. There is no default partition:
-- beside one, no other partition could be detached without blocking all sessions.
CREATE TABLE holdfast.finished (
    id uuid NOT NULL,
    delete_day date NOT NULL DEFAULT '-infinity',
    delete_after timestamptz NOT NULL,
    state text NOT NULL, -- completed, failed, cancelled
    claim_id uuid,
    claim_number bigint NOT NULL,
    worker text,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL DEFAULT '',
    priority bigint NOT NULL,
    cancel_requested boolean NOT NULL,
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
    unique_key text COLLATE "C",
    tags text,
    extra text,
    policy text NOT NULL,
    stage text,
    fraction double precision,
    message text,
    progress_at timestamptz,
    reason text,
    error text,
    rescue text,
    hook_due_at timestamptz,
    checkpoint bytea,
    payload bytea,
    result bytea
) PARTITION BY LIST (delete_day);

CREATE INDEX finished_id ON holdfast.finished (id);
CREATE INDEX finished_owed_hooks ON holdfast.finished (task, hook_due_at, id) WHERE hook_due_at IS NOT NULL;
CREATE INDEX finished_long ON holdfast.finished (id) WHERE payload IS NULL; -- their long payloads must go before their partition
CREATE TABLE holdfast.finished_other PARTITION OF holdfast.finished FOR VALUES IN ('-infinity');
CREATE INDEX finished_other_delete_after ON holdfast.finished_other (delete_after);
ALTER TABLE holdfast.finished REPLICA IDENTITY FULL;
ALTER TABLE holdfast.finished_other REPLICA IDENTITY FULL;

-- Payloads that are too long to be copied each time their job moves.
CREATE TABLE holdfast.payloads (
    job uuid NOT NULL PRIMARY KEY,
    payload bytea NOT NULL
);

-- Attempts are keyed by the token. They get their job's day when the job ends.
CREATE TABLE holdfast.attempts (
    job uuid NOT NULL,
    claim_number bigint NOT NULL,
    claim_id uuid NOT NULL,
    delete_day date NOT NULL DEFAULT '-infinity',
    requested_state text NOT NULL, -- where the transition asked to go, before any mark for cancellation
    outcome text, -- NULL: the code never ran; kept only to answer the same release sent again
    attempt integer NOT NULL,
    worker text NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    signal text,
    error text,
    stacks text,
    late_result bytea
) PARTITION BY LIST (delete_day);

CREATE INDEX attempts_job ON holdfast.attempts (job, claim_number);
-- A job may snooze or be released without limit. Of such attempts only enough is kept to answer the same settle sent again.
CREATE INDEX attempts_brief ON holdfast.attempts (ended_at)
WHERE requested_state = 'available' AND (outcome IS NULL OR outcome IN ('released', 'snoozed'));
CREATE TABLE holdfast.attempts_other PARTITION OF holdfast.attempts FOR VALUES IN ('-infinity');
ALTER TABLE holdfast.attempts REPLICA IDENTITY FULL;
ALTER TABLE holdfast.attempts_other REPLICA IDENTITY FULL;

-- place: the number of the step in the order of calls. result: JSON; NULL: a wait whose timeout passed.
CREATE TABLE holdfast.steps (
    job uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    nth integer NOT NULL,
    place integer NOT NULL,
    is_sequential boolean NOT NULL,
    result bytea,
    PRIMARY KEY (job, name, nth)
);

-- The signals that jobs have not consumed. One sequence for all: a job consumes them in its order.
CREATE SEQUENCE holdfast.signal_places AS bigint;
CREATE TABLE holdfast.signals (
    place bigint NOT NULL PRIMARY KEY,
    job uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL
);
CREATE INDEX signals_job ON holdfast.signals (job, name, place);

-- Return whether a job has a signal of this name. VOLATILE, so it sees what was committed before it is called: a statement that has
-- locked the job's row calls it then, and no signal comes between.
CREATE FUNCTION holdfast.has_signal(of_job uuid, of_name text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM holdfast.signals AS signals WHERE signals.job = of_job AND signals.name = of_name);
END
$$;

CREATE TABLE holdfast.receipts (
    call uuid NOT NULL PRIMARY KEY,
    received_at timestamptz NOT NULL,
    answer text -- NULL: all jobs were inserted, and nothing else was asked; or the call sent a signal
);
CREATE INDEX received ON holdfast.receipts (received_at);

-- At most one unfinished job of a task has a given key.
CREATE TABLE holdfast.unique_keys (
    task text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    digest bytea NOT NULL, -- of its payload
    PRIMARY KEY (task, key)
);
CREATE INDEX unique_keys_job ON holdfast.unique_keys (job);

-- Return the job that has a key: the asking job if the key is free. It locks only the asking job's row. ON CONFLICT DO UPDATE would
-- lock the row of a faster job until the caller's transaction ends, and that job could not finish for as long. Each of these statements
-- sees what was committed before it, so a key that is freed in between is asked for again.
CREATE FUNCTION holdfast.take_key(of_task text, of_key text, asker uuid, of_payload bytea, OUT job uuid, OUT digest bytea)
LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        INSERT INTO holdfast.unique_keys AS keys (task, key, job, digest) VALUES (of_task, of_key, asker, of_payload)
        ON CONFLICT DO NOTHING
        RETURNING keys.job, keys.digest INTO job, digest;
        EXIT WHEN FOUND;
        SELECT keys.job, keys.digest INTO job, digest
        FROM holdfast.unique_keys AS keys WHERE keys.task = of_task AND keys.key = of_key;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Return the job that has each of these keys, in their order. If a job has one for another payload, the whole call is refused, and the
-- keys that were free are returned at once; also inside a caller's transaction, which continues. If the caller's snapshot cannot show
-- the job that has a key, the server ends the transaction; the error names the remedy.
CREATE FUNCTION holdfast.take_keys(
    tasks text[], keys text[], jobs uuid[], payloads bytea[], OUT holders uuid[], OUT digests bytea[]
) LANGUAGE plpgsql STRICT AS $$
DECLARE
    taken record;
BEGIN
    -- Only keys that may have to be returned cost a subtransaction.
    IF cardinality(jobs) = 1 AND current_setting('transaction_isolation') = 'read committed' THEN
        taken = holdfast.take_key(tasks[1], keys[1], jobs[1], payloads[1]);
        holders = ARRAY[taken.job];
        digests = ARRAY[taken.digest];
        RETURN;
    END IF;
    BEGIN
        FOR place IN 1..cardinality(jobs) LOOP
            taken = holdfast.take_key(tasks[place], keys[place], jobs[place], payloads[place]);
            holders = holders || taken.job;
            digests = digests || taken.digest;
        END LOOP;
        IF digests <> payloads THEN
            RAISE EXCEPTION 'a key is held for another payload' USING ERRCODE = 'HF001';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'HF001' THEN
            NULL; -- What was inserted is gone; what was found out is kept.
        WHEN serialization_failure THEN
            RAISE EXCEPTION 'another transaction took a unique key, and this one began too early to see who has it'
            USING ERRCODE = 'serialization_failure', HINT = 'Run this transaction again, or use READ COMMITTED.';
    END;
END
$$;

-- Raised when a statement finds out too late that another one, committed since, was in its way. The whole statement is sent again.
CREATE FUNCTION holdfast.again() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'somebody else was in the way; try again' USING ERRCODE = 'serialization_failure';
END
$$;

-- Queues that are paused or have settings. key_weights: JSON, by key; NULL: the queue has no settings, and the other columns hold defaults.
CREATE TABLE holdfast.queues (
    queue text COLLATE "C" NOT NULL PRIMARY KEY,
    paused_at timestamptz,
    priority bigint NOT NULL DEFAULT 0, -- added to that of each of its jobs
    weight integer NOT NULL DEFAULT 1,
    key_weights text,
    origin text -- JSON: who set them
);

-- plan, origin: JSON. A claim of jobs that a limit counts locks its row.
CREATE TABLE holdfast.limits (
    scope text COLLATE "C" NOT NULL, -- all, task, queue
    name text COLLATE "C" NOT NULL,
    plan text NOT NULL,
    origin text NOT NULL,
    PRIMARY KEY (scope, name)
) WITH (fillfactor = 50);

-- From when on a rate is unused, in microseconds of the epoch: that of all jobs of a limit, or of those of a key (is_key).
CREATE TABLE holdfast.rates (
    scope text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    is_key boolean NOT NULL,
    key text COLLATE "C" NOT NULL,
    ready_at bigint NOT NULL,
    PRIMARY KEY (scope, name, is_key, key)
) WITH (fillfactor = 50);

-- plan: JSON. version is another one after each change; change: the id of the last one. last_job: the job of the last tick that fired.
CREATE TABLE holdfast.schedules (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    plan text NOT NULL,
    next_at timestamptz NOT NULL,
    last_tick timestamptz,
    last_job uuid,
    paused_at timestamptz,
    version bigint NOT NULL,
    change uuid NOT NULL
) WITH (fillfactor = 50);

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
    is_isolated boolean NOT NULL,
    declares text NOT NULL DEFAULT '[]',
    opened_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    previous_renewal_at timestamptz,
    expires_at timestamptz NOT NULL,
    renewals bigint NOT NULL DEFAULT 1,
    is_draining boolean NOT NULL DEFAULT false,
    voids bigint NOT NULL DEFAULT 0, -- how often it lost the right to start its claimed jobs
    ended_at timestamptz,
    end_reason text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 100);

-- started: claimed jobs of the lease through this claim number run. voids: as in leases.
-- Not in leases, because a worker writes it many times a second, and a beat skips a lease whose row is locked.
CREATE TABLE holdfast.lease_starts (
    lease uuid NOT NULL PRIMARY KEY,
    started bigint NOT NULL,
    voids bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 100);

-- The history of workers: what their supervisors knew with some of their beats. memory in bytes, loop_lag in seconds.
CREATE TABLE holdfast.beats (
    worker text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    running integer,
    claimed integer,
    slots integer NOT NULL,
    memory bigint,
    loop_lag double precision,
    answered_at timestamptz,
    delete_after timestamptz NOT NULL
);
CREATE INDEX beats_worker ON holdfast.beats (worker, at);
CREATE INDEX beats_delete_after ON holdfast.beats (delete_after);
ALTER TABLE holdfast.beats REPLICA IDENTITY FULL;

-- Make partitions of finished and attempts for the coming days; return how many days. Each is made separately and then attached, which
-- blocks no session. It runs with the rights of its owner, so that any user that prunes can call it. The server's own day bounds the
-- caller's. Days made far ahead, while the clock was wrong, are forgotten, and made again when they come.
CREATE FUNCTION holdfast.make_partitions(today date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own date = (clock_timestamp() AT TIME ZONE 'UTC')::date;
    known holdfast.partition_days;
    start date;
    parent text;
    name text;
BEGIN
    today = greatest(least(today, own + 1), own - 1);
    SELECT * INTO known FROM holdfast.partition_days FOR UPDATE;
    IF known.last > today + 10 THEN
        known.last = '-infinity';
    END IF;
    start = greatest(known.last, today) + 1;
    FOR ahead IN 0 .. today + 9 - start LOOP
        FOREACH parent IN ARRAY ARRAY['finished', 'attempts'] LOOP
            name = parent || to_char(start + ahead, '_YYYYMMDD');
            CONTINUE WHEN to_regclass(format('holdfast.%I', name)) IS NOT NULL;
            EXECUTE format('CREATE TABLE holdfast.%I (LIKE holdfast.%I INCLUDING ALL)', name, parent);
            EXECUTE format('ALTER TABLE holdfast.%I REPLICA IDENTITY FULL', name);
            EXECUTE format('ALTER TABLE holdfast.%I ATTACH PARTITION holdfast.%I FOR VALUES IN (%L)', parent, name, start + ahead);
        END LOOP;
    END LOOP;
    IF start > known.last + 1 THEN -- late: there is a gap
        UPDATE holdfast.partition_days SET first = start;
    END IF;
    UPDATE holdfast.partition_days SET last = greatest(known.last, today + 9);
    RETURN greatest(today + 10 - start, 0);
END
$$;
REVOKE ALL ON FUNCTION holdfast.make_partitions FROM PUBLIC;

-- Pending, active and finished jobs as one view. A claimed job that its lease has started is running since it was claimed.
CREATE VIEW holdfast.jobs AS
SELECT
    id, state, NULL::uuid AS claim_id, claim_number, NULL::uuid AS lease, NULL::text AS worker, task, queue, key, priority,
    false AS cancel_requested, false AS is_stub, attempt, failures, crashes, created_at, available_at,
    NULL::timestamptz AS claimed_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at, expires_at,
    unique_key, tags, extra, policy, stage, fraction, message, progress_at, NULL::text AS reason, error, rescue, hook_due_at,
    awaits, held_for, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = pending.id)) AS payload,
    NULL::bytea AS result, 'pending' AS place
FROM holdfast.pending
UNION ALL
SELECT
    id, CASE WHEN has_begun THEN 'running' ELSE state END, claim_id, claim_number, lease, worker, task, queue, key, priority,
    cancel_requested, false, attempt + has_begun::integer, failures, crashes,
    created_at, available_at, claimed_at, CASE WHEN has_begun THEN claimed_at ELSE started_at END, NULL::timestamptz, expires_at,
    unique_key, tags, extra, policy, stage,
    fraction, message, progress_at, NULL::text, error, rescue, hook_due_at, NULL::text, NULL::text, checkpoint,
    coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads WHERE payloads.job = active.id)),
    NULL::bytea, 'active'
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
    result, 'finished'
FROM holdfast.finished;
