-- Return groups of the newest failed jobs, each with its newest job, and of all groups and jobs the number and the oldest end.
-- :look, how many jobs it groups; :limit of groups.
-- It finds ids first and reads errors of the newest jobs only. Jobs without a key are grouped by task and reason.
WITH looked AS MATERIALIZED (
    SELECT
        id, finished_at, row_number() OVER (ORDER BY finished_at DESC, id DESC) AS place, task, reason,
        CASE WHEN tail LIKE '"key":"%' THEN substr(tail, 8, 16) ELSE '' END AS error_key
    FROM holdfast.finished
    CROSS JOIN LATERAL (SELECT right(error, 25) AS tail OFFSET 0) AS ending
    WHERE state = 'failed' AND NOT is_stub
    ORDER BY finished_at DESC, id DESC
    LIMIT :look
),
groups AS MATERIALIZED (
    SELECT count(*) AS number, min(place) AS newest, max(place) AS oldest, count(*) OVER () AS kinds
    FROM looked
    GROUP BY error_key, CASE WHEN error_key = '' THEN task END, CASE WHEN error_key = '' THEN reason END
    ORDER BY min(place)
    LIMIT :limit
),
found AS MATERIALIZED (
    SELECT newest.id, groups.number, oldest.finished_at AS first_at, newest.finished_at AS last_at, groups.newest, groups.kinds
    FROM groups
    JOIN looked AS newest ON newest.place = groups.newest
    JOIN looked AS oldest ON oldest.place = groups.oldest
)
SELECT
    jobs.id, jobs.task, jobs.reason, jobs.error, found.number, found.first_at, found.last_at, found.kinds,
    (SELECT count(*) FROM looked) AS looked_at, (SELECT min(finished_at) FROM looked) AS back_to
FROM found
CROSS JOIN LATERAL ( -- one look into an index for each group: a join is planned as a scan of all finished jobs
    SELECT * FROM holdfast.finished WHERE finished.id = found.id LIMIT 1
) AS jobs
ORDER BY found.newest
