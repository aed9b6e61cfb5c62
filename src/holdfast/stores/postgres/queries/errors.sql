-- Return groups of the newest failed jobs, each with its newest job, and of all groups and jobs the number and the oldest end.
-- :look, how many jobs it groups; :limit of groups.
-- The key is the end of an error. It is read as bytes: right() counts the characters of the whole error, which was three quarters of the
-- time. Jobs without a key are grouped by task and reason.
WITH tails AS (
    SELECT tail, task, reason, count(*) AS number, min(finished_at) AS first_at, max(finished_at) AS last_at
    FROM (
        SELECT substring(convert_to(error, getdatabaseencoding()) FROM octet_length(error) - 24) AS tail, task, reason, finished_at
        FROM holdfast.finished
        WHERE state = 'failed' AND NOT is_stub
        ORDER BY finished_at DESC, id DESC
        LIMIT :look
    ) AS looked
    GROUP BY tail, task, reason
),
kinds AS (
    SELECT *, CASE WHEN tail LIKE '"key":"%'::bytea THEN encode(substring(tail FROM 8 FOR 16), 'escape') ELSE '' END AS error_key
    FROM tails
),
groups AS MATERIALIZED (
    SELECT
        error_key, CASE WHEN error_key = '' THEN task END AS task, CASE WHEN error_key = '' THEN reason END AS reason,
        sum(number)::bigint AS number, min(first_at) AS first_at, max(last_at) AS last_at, count(*) OVER () AS kinds,
        (sum(sum(number)) OVER ())::bigint AS looked_at, min(min(first_at)) OVER () AS back_to
    FROM kinds
    GROUP BY 1, 2, 3
    ORDER BY max(last_at) DESC
    LIMIT :limit
)
SELECT
    jobs.id, jobs.task, jobs.reason, jobs.error, groups.number, groups.first_at, groups.last_at, groups.kinds,
    groups.looked_at, groups.back_to
FROM groups
CROSS JOIN LATERAL ( -- one look into an index for each group: a join is planned as a scan of all finished jobs
    SELECT id, task, reason, error
    FROM holdfast.finished
    WHERE state = 'failed' AND NOT is_stub AND finished_at = groups.last_at
        AND CASE WHEN right(error, 25) LIKE '"key":"%' THEN left(right(error, 18), 16) ELSE '' END = groups.error_key
        AND (groups.error_key <> '' OR (finished.task = groups.task AND finished.reason IS NOT DISTINCT FROM groups.reason))
    ORDER BY id DESC
    LIMIT 1
) AS jobs
ORDER BY groups.last_at DESC, jobs.id DESC
