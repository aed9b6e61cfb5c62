-- The progress of an attempt: at most 32 points as JSON, on the row while its code runs, then on the record of the attempt.
ALTER TABLE main.holdfast_jobs ADD COLUMN points TEXT;
ALTER TABLE main.holdfast_attempts ADD COLUMN points TEXT;
