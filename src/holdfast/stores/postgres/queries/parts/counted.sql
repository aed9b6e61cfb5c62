-- counted(label): the number of jobs of each label and state; ``clock`` has the time.
-- Of completed, failed and cancelled jobs it looks at no more than :limit each, NULL for all.
SELECT label AS name, state, -- include early_as((SELECT now FROM clock))
    AS early_as, count(*) AS number
FROM holdfast.jobs WHERE place IN ('pending', 'active')
GROUP BY 1, 2, 3
UNION ALL
SELECT label, 'completed', NULL, count(*)
FROM (SELECT queue, task FROM holdfast.finished WHERE state = 'completed' LIMIT :limit) AS completed GROUP BY 1
UNION ALL
SELECT label, 'failed', NULL, count(*)
FROM (SELECT queue, task FROM holdfast.finished WHERE state = 'failed' LIMIT :limit) AS failed GROUP BY 1
UNION ALL
SELECT label, 'cancelled', NULL, count(*)
FROM (SELECT queue, task FROM holdfast.finished WHERE state = 'cancelled' LIMIT :limit) AS cancelled GROUP BY 1
