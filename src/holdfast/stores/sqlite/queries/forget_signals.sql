-- Delete the signals of those of these jobs that have completed.
DELETE FROM holdfast_signals WHERE job IN (
    SELECT id FROM holdfast_jobs
    WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND state = 'completed'
);
