-- Add rows to the history, and delete old ones; a copy adds nothing.
-- :ids; :notes, JSON; :limit of deleted rows.
-- A row that another session deletes is left to it: this statement waits for no lock.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),
past AS MATERIALIZED (
    SELECT ctid AS place FROM holdfast.minutes
    WHERE at <= (SELECT now - interval '1 day' FROM clock) -- HISTORY_RETENTION
    ORDER BY at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
),
deleted AS (
    DELETE FROM holdfast.minutes WHERE ctid = ANY (ARRAY(SELECT place FROM past))
)
INSERT INTO holdfast.minutes (id, at, value)
SELECT note.id, (SELECT now FROM clock), note.value FROM unnest(:ids::uuid[], :notes::text[]) AS note (id, value)
ON CONFLICT (id) DO NOTHING
