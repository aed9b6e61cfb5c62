-- Failed jobs by the time at which they ended, and by the cause of their error. Only jobs that fail pay for these indexes.

CREATE INDEX finished_failed ON holdfast.finished (finished_at, id) WHERE state = 'failed';

-- The expression is that of parts/error_key.sql. It never raises: a quote within a string of the JSON would have a backslash before it.
CREATE INDEX finished_error_keys ON holdfast.finished (substring(error FROM '"key":"([0-9a-f]+)"'), id) WHERE state = 'failed';
