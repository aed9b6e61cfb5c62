-- Return the jobs that the last write of this connection delayed, except those that were reopened or whose hook ran since.
SELECT record.state, record.*
FROM holdfast_touched AS touched
JOIN holdfast_record AS record ON record.id = touched.id
WHERE record.hook_due_at IS NOT NULL AND record.state IN ('held', 'completed', 'failed', 'cancelled')
ORDER BY touched.rowid;
