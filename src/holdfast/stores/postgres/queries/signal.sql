-- Keep a signal for an unfinished job, and make the job due if it awaits one of that name.
-- A job that has :most signals gets no more; a call that has a receipt already changes nothing. Return the answer; NULL: the job moved
-- since, ask again.
-- :job, :call, :name, :value; :most.
-- The job's row is locked first: a settle of the job either looks for signals after this one is committed, or came before this one.
-- Lock order: the job, the receipt.
WITH running AS MATERIALIZED (
    SELECT id FROM holdfast.active WHERE id = :job FOR KEY SHARE
),

waiting AS MATERIALIZED (
    SELECT id FROM holdfast.pending WHERE id = :job FOR NO KEY UPDATE
),

receipt AS (
    INSERT INTO holdfast.receipts (call, received_at)
    SELECT :call, clock_timestamp()
    FROM (SELECT id FROM running UNION ALL SELECT id FROM waiting) AS locked
    WHERE (SELECT count(*) FROM holdfast.signals AS signals WHERE signals.job = :job) < :most
    LIMIT 1
    ON CONFLICT DO NOTHING
    RETURNING call
),

stored AS (
    INSERT INTO holdfast.signals (place, job, name, value)
    SELECT nextval('holdfast.signal_places'), :job, :name, :value FROM receipt
),

woken AS (
    UPDATE holdfast.pending SET available_at = clock_timestamp(), awaits = NULL
    WHERE id = :job AND awaits = :name AND EXISTS (SELECT FROM receipt)
)

SELECT CASE
    WHEN EXISTS (SELECT FROM holdfast.receipts AS known WHERE known.call = :call) OR EXISTS (SELECT FROM receipt) THEN 'accepted'
    -- Without a receipt the job is full, or a copy of this call was faster: the next statement sees its receipt.
    WHEN EXISTS (SELECT FROM running) OR EXISTS (SELECT FROM waiting) THEN CASE
        WHEN (SELECT count(*) FROM holdfast.signals AS signals WHERE signals.job = :job) >= :most THEN 'full'
    END
    WHEN EXISTS (SELECT FROM holdfast.finished WHERE id = :job) THEN 'refused'
    WHEN NOT EXISTS (SELECT FROM holdfast.pending WHERE id = :job) AND NOT EXISTS (SELECT FROM holdfast.active WHERE id = :job) THEN 'missing'
END AS answer;
