-- Delete the receipt of jobs that are inserted without a call: the write that inserts them is known by another record.
DELETE FROM holdfast_receipts WHERE call = :call;
