-- counted(label): the number of jobs of each label and state; ``clock`` has the time.
-- Of completed, failed and cancelled jobs it looks at no more than :limit each, NULL for all. With a limit the order leads to indexes: a
-- scan would begin anywhere, and read jobs of other states first.
SELECT label AS name, state, -- include early_as((SELECT now FROM clock))
    AS early_as, count(*) AS number
FROM holdfast.jobs WHERE place IN ('pending', 'active')
GROUP BY 1, 2, 3
UNION ALL
SELECT label, 'completed', NULL, count(*)
FROM (
    SELECT queue, task FROM holdfast.finished WHERE state = 'completed'
    ORDER BY CASE WHEN :limit::bigint IS NOT NULL THEN id END
    LIMIT :limit
) AS completed
GROUP BY 1
UNION ALL
SELECT label, 'failed', NULL, count(*)
FROM (
    SELECT queue, task FROM holdfast.finished WHERE state = 'failed'
    ORDER BY CASE WHEN :limit::bigint IS NOT NULL THEN id END
    LIMIT :limit
) AS failed
GROUP BY 1
UNION ALL
SELECT label, 'cancelled', NULL, count(*)
FROM (
    SELECT queue, task FROM holdfast.finished WHERE state = 'cancelled'
    ORDER BY CASE WHEN :limit::bigint IS NOT NULL THEN id END
    LIMIT :limit
) AS cancelled
GROUP BY 1
