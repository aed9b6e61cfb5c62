-- The history: what each worker did in each minute, written by its supervisor, and kept for HISTORY_RETENTION.
CREATE TABLE main.holdfast_minutes (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    value TEXT NOT NULL -- JSON
) WITHOUT ROWID;

CREATE INDEX main.holdfast_minutes_at ON holdfast_minutes (at);
