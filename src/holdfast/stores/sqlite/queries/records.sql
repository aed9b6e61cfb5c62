-- Return these jobs.
SELECT state, record.* FROM holdfast_record AS record
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
