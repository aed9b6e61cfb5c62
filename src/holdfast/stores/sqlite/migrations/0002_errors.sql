-- Failed jobs by the time at which they ended, and all jobs by the cause of their error. Only jobs that fail pay for the indexes.

-- The fingerprint in the error; NULL without one, and in rows of an older release.
ALTER TABLE main.holdfast_jobs ADD COLUMN error_key TEXT
GENERATED ALWAYS AS (iif(json_valid(error), json_extract(error, '$.key'), NULL)) VIRTUAL;

-- It has all that groups of errors need, so that they are counted without reading the errors.
CREATE INDEX main.holdfast_failed ON holdfast_jobs (finished_at, id, error_key, task, reason, is_stub, state) WHERE state = 'failed';
CREATE INDEX main.holdfast_error_keys ON holdfast_jobs (error_key, id) WHERE error_key IS NOT NULL;
