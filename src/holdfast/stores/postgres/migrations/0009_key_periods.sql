-- A job may hold its unique key for a period, although it has completed, or only until its first claim; see uniqueness.py.
-- until_started: the key is free once the job has been claimed. Its row then stays until another job takes the key, or until the job ends.
ALTER TABLE holdfast.unique_keys ADD COLUMN until timestamptz;
ALTER TABLE holdfast.unique_keys ADD COLUMN until_started boolean NOT NULL DEFAULT false;
CREATE INDEX unique_keys_until ON holdfast.unique_keys (until) WHERE until IS NOT NULL;

-- Return whether a job still holds a key on these terms. A job that waits for its first claim cannot be claimed before this transaction
-- ends: what the caller commits together with its enqueue is there when that job runs.
CREATE FUNCTION holdfast.holds_key(of_job uuid, of_until timestamptz, of_start boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF of_until > clock_timestamp() OR (of_until IS NULL AND NOT of_start) THEN
        RETURN true;
    END IF;
    IF of_start THEN
        PERFORM FROM holdfast.pending AS waiting WHERE waiting.id = of_job AND waiting.claim_number = 0 FOR KEY SHARE;
        RETURN FOUND;
    END IF;
    RETURN EXISTS (SELECT FROM holdfast.pending AS waiting WHERE waiting.id = of_job)
        OR EXISTS (SELECT FROM holdfast.active AS running WHERE running.id = of_job);
END
$$;

-- Return the job that holds a key: the asking job if the key is free. It locks only the asking job's row, and a waiting job that will
-- free the key when it is claimed. ON CONFLICT DO UPDATE would lock the row of a faster job until the caller's transaction ends, and that
-- job could not finish for as long. Each of these statements sees what was committed before it, so a key that is freed in between is
-- asked for again. period: the seconds for which the asking job holds it; starts: whether its first claim frees it.
CREATE FUNCTION holdfast.hold_key(
    of_task text, of_key text, asker uuid, of_payload bytea, period double precision, starts boolean, OUT job uuid, OUT digest bytea
) LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    LOOP
        INSERT INTO holdfast.unique_keys AS keys (task, key, job, digest, until, until_started)
        VALUES (of_task, of_key, asker, of_payload, clock_timestamp() + period * interval '1 second', coalesce(starts, false))
        ON CONFLICT DO NOTHING
        RETURNING keys.job, keys.digest INTO job, digest;
        EXIT WHEN FOUND;
        SELECT keys.job, keys.digest, keys.until, keys.until_started INTO held
        FROM holdfast.unique_keys AS keys WHERE keys.task = of_task AND keys.key = of_key;
        CONTINUE WHEN NOT FOUND;
        IF holdfast.holds_key(held.job, held.until, held.until_started) THEN
            job = held.job;
            digest = held.digest;
            EXIT;
        END IF;
        -- Asked again when its row is locked: an operator may have reopened the job since.
        DELETE FROM holdfast.unique_keys AS keys
        WHERE keys.task = of_task AND keys.key = of_key AND keys.job = held.job
            AND NOT holdfast.holds_key(keys.job, keys.until, keys.until_started);
    END LOOP;
END
$$;

-- As before, for the previous release, whose jobs hold their key until they finish.
CREATE OR REPLACE FUNCTION holdfast.take_key(of_task text, of_key text, asker uuid, of_payload bytea, OUT job uuid, OUT digest bytea)
LANGUAGE plpgsql AS $$
DECLARE
    taken record;
BEGIN
    taken = holdfast.hold_key(of_task, of_key, asker, of_payload, NULL, false);
    job = taken.job;
    digest = taken.digest;
END
$$;

-- Return the job that holds each of these keys, in their order. If a job has one for another payload, the whole call is refused, and the
-- keys that were free are returned at once; also inside a caller's transaction, which continues. If the caller's snapshot cannot show
-- the job that has a key, the server ends the transaction; the error names the remedy.
CREATE FUNCTION holdfast.hold_keys(
    tasks text[], keys text[], jobs uuid[], payloads bytea[], periods double precision[], starts boolean[],
    OUT holders uuid[], OUT digests bytea[]
) LANGUAGE plpgsql STRICT AS $$
DECLARE
    taken record;
BEGIN
    -- Only keys that may have to be returned cost a subtransaction.
    IF cardinality(jobs) = 1 AND current_setting('transaction_isolation') = 'read committed' THEN
        taken = holdfast.hold_key(tasks[1], keys[1], jobs[1], payloads[1], periods[1], starts[1]);
        holders = ARRAY[taken.job];
        digests = ARRAY[taken.digest];
        RETURN;
    END IF;
    BEGIN
        FOR place IN 1..cardinality(jobs) LOOP
            taken = holdfast.hold_key(tasks[place], keys[place], jobs[place], payloads[place], periods[place], starts[place]);
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
