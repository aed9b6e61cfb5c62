-- Make plain jobs the roots of workflows, which this transaction has begun and locked. A job that another session moves is seen in neither
-- of its places: it is asked for again. A finished one leaves the partition of its day, with its attempts: it stays while others wait for it.
-- :ids of jobs.
WITH waiting AS (
    UPDATE holdfast.pending SET flow = id WHERE id = ANY(:ids::uuid[]) AND flow IS NULL RETURNING id, task
),

running AS (
    UPDATE holdfast.active SET flow = id WHERE id = ANY(:ids::uuid[]) AND flow IS NULL RETURNING id, task
),

over AS (
    UPDATE holdfast.finished SET flow = id, delete_day = '-infinity' WHERE id = ANY(:ids::uuid[]) AND flow IS NULL RETURNING id, task
),

kept AS (
    UPDATE holdfast.attempts SET delete_day = '-infinity' WHERE delete_day <> '-infinity' AND job = ANY(ARRAY(SELECT id FROM over))
)

INSERT INTO holdfast.members (job, flow, position, node, on_failure, is_gate, needs, waits)
SELECT id, id, 0, task, 'fail', false, 0, 0 FROM (
    SELECT id, task FROM waiting
    UNION ALL
    SELECT id, task FROM running
    UNION ALL
    SELECT id, task FROM over
) AS roots;
