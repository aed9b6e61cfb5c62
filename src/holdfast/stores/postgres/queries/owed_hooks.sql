-- Return ended jobs of these tasks whose rescue hook is due, the longest due first.
-- :tasks; :limit; :pause and :longest in seconds: each is due again after :pause or its age, at most after :longest.
-- Jobs whose hook another session is running now are left out.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

over AS MATERIALIZED (
    SELECT id, hook_due_at FROM holdfast.finished
    WHERE task = ANY(:tasks::text[]) AND hook_due_at <= (SELECT now FROM clock)
    ORDER BY hook_due_at, id LIMIT :limit
    FOR UPDATE SKIP LOCKED
),

held AS MATERIALIZED (
    SELECT id, hook_due_at FROM holdfast.pending
    WHERE task = ANY(:tasks::text[]) AND hook_due_at <= (SELECT now FROM clock) AND state = 'held'
    ORDER BY hook_due_at, id LIMIT :limit
    FOR UPDATE SKIP LOCKED
),

owed AS MATERIALIZED (
    SELECT id, hook_due_at FROM over
    UNION ALL
    SELECT id, hook_due_at FROM held
    ORDER BY hook_due_at, id LIMIT :limit
),

delayed AS (
    UPDATE holdfast.finished SET hook_due_at = (SELECT now FROM clock) + least(greatest(
        :pause::double precision * interval '1 second', (SELECT now FROM clock) - finished_at
    ), :longest::double precision * interval '1 second')
    WHERE id = ANY(ARRAY(SELECT id FROM owed))
    RETURNING id, hook_due_at
),

delayed_held AS (
    UPDATE holdfast.pending SET hook_due_at = (SELECT now FROM clock) + least(greatest(
        :pause::double precision * interval '1 second', (SELECT now FROM clock) - available_at
    ), :longest::double precision * interval '1 second')
    WHERE id = ANY(ARRAY(SELECT id FROM owed))
    RETURNING id, hook_due_at
)

SELECT jobs.*, NULL AS early_as, offered.hook_due_at AS offered_until
FROM (
    SELECT id, hook_due_at FROM delayed
    UNION ALL
    SELECT id, hook_due_at FROM delayed_held
) AS offered
JOIN owed ON owed.id = offered.id
JOIN (SELECT * FROM holdfast.jobs WHERE id = ANY(ARRAY(SELECT id FROM owed))) AS jobs ON jobs.id = offered.id
ORDER BY owed.hook_due_at, owed.id;
