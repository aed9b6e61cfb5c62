-- Return the receipt of a call.
-- :call.
SELECT call FROM holdfast.receipts WHERE call = :call;
