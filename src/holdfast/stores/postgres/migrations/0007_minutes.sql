-- The history: what each worker did in each minute, written by its supervisor, and kept for HISTORY_RETENTION. value is JSON.
CREATE TABLE holdfast.minutes (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    value text NOT NULL
);
CREATE INDEX minutes_at ON holdfast.minutes (at);
