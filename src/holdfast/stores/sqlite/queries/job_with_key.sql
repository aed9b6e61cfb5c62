-- Return the unfinished job of a task that has this unique key.
SELECT holding.id FROM holdfast_jobs AS holding
WHERE holding.task = :task AND holding.unique_key = :unique_key AND holding.state <> 'completed'
    AND -- include holds_key(holding, :wall)
;
