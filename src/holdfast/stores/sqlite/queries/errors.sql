-- Return groups of the newest failed jobs, each with its newest job, and of all groups and jobs the number and the oldest end.
-- No window numbers the jobs, and nothing joins them: each would double the cost.
WITH looked AS MATERIALIZED (
    SELECT finished_at, coalesce(error_key, '') AS error_key, task, reason
    FROM holdfast_jobs
    WHERE state = 'failed' AND NOT is_stub
    ORDER BY finished_at DESC, id DESC
    LIMIT :look
),
groups AS MATERIALIZED (
    SELECT
        error_key, iif(error_key = '', task, NULL) AS task, iif(error_key = '', reason, NULL) AS reason,
        count(*) AS number, min(finished_at) AS first_at, max(finished_at) AS last_at, count(*) OVER () AS kinds
    FROM looked
    GROUP BY 1, 2, 3
    ORDER BY last_at DESC
    LIMIT :limit
)
SELECT
    jobs.id, jobs.task, jobs.reason, jobs.error, groups.number, groups.first_at, groups.last_at, groups.kinds,
    (SELECT count(*) FROM looked), (SELECT min(finished_at) FROM looked)
FROM groups
JOIN holdfast_jobs AS jobs ON jobs.id = (
    SELECT newest.id FROM holdfast_jobs AS newest
    WHERE newest.state = 'failed' AND newest.finished_at = groups.last_at
        AND coalesce(newest.error_key, '') = groups.error_key
        AND (groups.error_key <> '' OR (newest.task = groups.task AND newest.reason IS groups.reason))
    ORDER BY newest.id DESC
    LIMIT 1
)
ORDER BY groups.last_at DESC, jobs.id DESC;
