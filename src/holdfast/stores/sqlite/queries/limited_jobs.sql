-- Return the first due jobs of each of :ranges, (task, priority, queue, key), that a claim could take, of each at most :most.
-- It is read under the lock of the file.
SELECT range.key, job.available_at, job.id
FROM json_each(:ranges) AS range
JOIN holdfast_jobs AS job ON job.rowid IN (
    SELECT due.rowid FROM holdfast_jobs AS due
    WHERE due.state = 'available' AND due.task = json_extract(range.value, '$[0]')
        AND due.priority = json_extract(range.value, '$[1]') AND due.queue = json_extract(range.value, '$[2]')
        AND due.key = json_extract(range.value, '$[3]') AND due.available_at <= :wall
        AND -- include claimable(due, :normal, :isolated, :wall)
    ORDER BY due.available_at, due.id LIMIT :most
)
ORDER BY job.available_at, job.id;
