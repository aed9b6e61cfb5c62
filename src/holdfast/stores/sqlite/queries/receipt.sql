-- Return the answer of an enqueue call. A blob, because the caller's connection may convert strings on reading.
SELECT CAST(answer AS BLOB) FROM holdfast_receipts WHERE call = :call;
