-- What a call of enqueue was answered; a blob, because the caller's connection may read texts in a way of its own.
SELECT CAST(answer AS BLOB) FROM holdfast_receipts WHERE call = :call;
