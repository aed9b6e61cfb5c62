-- Return whether a call has a receipt, and the state of the job, NULL if it is unknown.
SELECT EXISTS (SELECT 1 FROM holdfast_receipts WHERE call = :call), (SELECT state FROM holdfast_jobs WHERE id = :job);
