-- Failed jobs by the time at which they ended, and by the cause of their error. Only jobs that fail pay for these indexes.

CREATE INDEX finished_failed ON holdfast.finished (finished_at, id) WHERE state = 'failed';

-- The expression is that of parts/error_key.sql. The key is the last field of the JSON; within a string, a backslash would precede a quote.
CREATE INDEX finished_error_keys ON holdfast.finished ((CASE WHEN right(error, 25) LIKE '"key":"%' THEN left(right(error, 18), 16) END) COLLATE "C", id) WHERE state = 'failed';
