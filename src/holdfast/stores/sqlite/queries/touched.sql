-- The rows that the last write of this connection deleted, failed or delayed, in its order.
CREATE TEMP TABLE holdfast_touched (what TEXT NOT NULL, id BLOB NOT NULL, task TEXT);

-- call
SELECT what, id, task FROM holdfast_touched ORDER BY rowid;
