-- counted(label): the number of jobs of each label and state.
-- Of completed, failed and cancelled jobs it looks at no more than :limit each: the first ones of the table or of an index; -1 stands for all.
SELECT label AS name, 'available' AS now, count(*) AS number FROM holdfast_jobs
WHERE state = 'available' AND available_at <= :wall GROUP BY 1
UNION ALL
SELECT label, iif(awaits IS NULL, 'scheduled', 'blocked'), count(*) FROM holdfast_jobs
WHERE state = 'available' AND available_at > :wall GROUP BY 1, 2
UNION ALL
SELECT label, state, count(*) FROM holdfast_jobs WHERE state IN ('claimed', 'running') GROUP BY 1, 2
UNION ALL
SELECT label, state, count(*) FROM holdfast_jobs WHERE state = 'held' GROUP BY 1, 2
UNION ALL
SELECT label, state, count(*) FROM holdfast_jobs WHERE state = 'blocked' GROUP BY 1, 2
UNION ALL
SELECT label, 'completed', count(*) FROM (SELECT queue, task FROM holdfast_jobs WHERE state = 'completed' LIMIT :limit) GROUP BY 1
UNION ALL
SELECT label, 'failed', count(*) FROM (
    SELECT queue, task FROM holdfast_jobs WHERE state IN ('failed', 'cancelled') AND state = 'failed' LIMIT :limit
) GROUP BY 1
UNION ALL
SELECT label, 'cancelled', count(*) FROM (
    SELECT queue, task FROM holdfast_jobs WHERE state IN ('failed', 'cancelled') AND state = 'cancelled' LIMIT :limit
) GROUP BY 1
