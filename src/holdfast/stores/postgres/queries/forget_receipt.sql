-- Delete the receipt of jobs that were inserted without a call.
-- :call.
DELETE FROM holdfast.receipts WHERE call = :call;
