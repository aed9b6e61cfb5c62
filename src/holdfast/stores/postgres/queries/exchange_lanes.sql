-- Settle as exchange.sql does, then claim from all lanes of the known tasks, which take turns by the rule of _core/lanes.py.
--
-- :jobs, :claims, :numbers (ascending, each once), :results, :retentions; one claim, result or retention alone is that of all.
-- :lease, :claim. :is_running: whether the claimed jobs start at once. `:room`: at most how many jobs.
-- :tasks (ascending by bytes), :policies, :progress_within, :timeouts. :normal and :isolated: which kinds of jobs.
-- :is_lone: whether the lease may be an isolated one. :voids: the number that it must have, NULL: any. :queues, NULL: all.
-- :look, how many jobs are dealt out: `:room`, and more while other claims have as many locked.
-- :misses, at how many lanes without due jobs the walk of a task gives up.
-- :share, how many turns of a lane a claim gives while more lanes wait. :turns, how many turns of each lane are read at once: the share,
-- or more, a guess that saves reading a lane twice.
-- :ring_priorities, :ring_queues, :ring_keys, where the ring of each priority begins; :ring_lefts, how many jobs of a turn are left there.
-- :from_priority, :from_before, :from_queue, :from_key, where an earlier walk gave up; the queue is NULL if none did.
-- :seen_tasks, :seen_priorities, :seen_queues, :seen_keys, :seen_ats, :seen_jobs, the last jobs taken from deep ranges: all before them
-- were taken or locked just now. :caps, NULL: see walk.sql.
-- Return the claimed jobs, then one row without an id: the number of settled jobs, and as JSON what the walk saw, see LaneReport.
-- A search that finds nothing writes nothing: the lease is locked only once a job is found.
-- Lock order: active jobs, their keys; the lease, waiting jobs.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT now, now AT TIME ZONE 'UTC' AS utc FROM clock_timestamp() AS now
),

-- settling

-- walk

-- include given_up(),

-- due: the jobs of a lane of all tasks, as far as counted. is_first: whether this row stands for its lane, is_only: and no other does.
counted AS (
    SELECT
        walk.*, least(sum(number) OVER lane, most)::bigint AS due, row_number() OVER lane = 1 AS is_first, count(*) OVER lane = 1 AS is_only,
        CASE
            WHEN (queue, key) = (start_queue, start_key) THEN greatest(
                0, weight - nullif((:ring_lefts::bigint[])[array_position(:ring_priorities::bigint[], priority)], 0)
            )
            ELSE 0
        END AS begun
    FROM walk
    WHERE number > 0
        AND -- include is_known()
    WINDOW lane AS (PARTITION BY priority, is_before, queue, key)
),

-- ahead: what the lanes before give by their shares.
ranked AS (
    SELECT
        counted.*, sum(CASE WHEN is_first THEN least(due, :share::bigint * weight) ELSE 0 END) OVER (
            ORDER BY priority, is_before, queue, key
        )::bigint - least(due, :share::bigint * weight) AS ahead
    FROM counted
),

-- The priority in whose ring more lanes are left than the claim looks at.
cut AS MATERIALIZED (
    SELECT max(priority) FILTER (WHERE ahead < :look) AS priority FROM ranked
    HAVING max(priority) FILTER (WHERE ahead < :look) = min(priority) FILTER (WHERE ahead >= :look)
),

-- sure: what the rings up to this one give if no lane has more jobs than were read. If that is too little, lanes of rings that were
-- seen whole are read again, as deep as the claim may need.
looked AS (
    SELECT
        ranked.*, (priority = (SELECT cut.priority FROM cut)) IS TRUE AS is_cut,
        sum(CASE WHEN is_first THEN least(due, :turns::bigint * weight - begun) ELSE 0 END) OVER (ORDER BY priority)::bigint AS sure
    FROM ranked
    WHERE ahead < :look
),

read AS (
    SELECT
        looked.priority, looked.is_before, looked.queue, looked.key, looked.weight, looked.begun, looked.is_only,
        CASE WHEN looked.is_cut THEN :share::bigint * looked.weight ELSE :look END AS most,
        job.place, job.available_at, job.id, job.nth
    FROM (
        SELECT looked.*, NOT is_cut AND due = most AND most < :look AND sure < :look AS is_deep FROM looked
    ) AS looked
    CROSS JOIN LATERAL (
        SELECT first.place, first.available_at, first.id, first.nth
        FROM unnest(looked.places, looked.due_ats, looked.ids) WITH ORDINALITY AS first (place, available_at, id, nth)
        WHERE NOT looked.is_deep
        UNION ALL
        (
            SELECT job.ctid, job.available_at, job.id, row_number() OVER (ORDER BY job.available_at, job.id)
            FROM holdfast.pending AS job
            WHERE looked.is_deep AND job.state = 'available' AND job.task = looked.task AND job.priority = looked.priority
                AND job.queue = looked.queue AND job.key = looked.key AND job.available_at <= (SELECT now FROM clock)
                AND (job.available_at, job.id) >= (looked.first_at, looked.first_id)
                AND -- include claimable(job, (SELECT now FROM clock))
            ORDER BY job.available_at, job.id LIMIT :look
        )
    ) AS job
),

-- nth: the place of a job in its lane.
placed AS (
    SELECT priority, is_before, queue, key, weight, begun, most, place, nth FROM read WHERE is_only
    UNION ALL
    SELECT
        priority, is_before, queue, key, weight, begun, most, place,
        row_number() OVER (PARTITION BY priority, is_before, queue, key ORDER BY available_at, id)
    FROM read WHERE NOT is_only
),

dealt AS MATERIALIZED (
    SELECT place, nth FROM (
        SELECT place, row_number() OVER (ORDER BY priority, (nth - 1 + begun) / weight, is_before, queue, key, nth) AS nth
        FROM placed
        WHERE nth <= most
    ) AS placed
    WHERE nth <= :look
),

-- include owner(),

-- include taken(),

claimed AS (
    -- include claimed()
)

SELECT claimed.*, NULL AS report FROM claimed
UNION ALL
SELECT
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, (SELECT count(*) FROM gone),
    json_build_object(
        'dealt', (SELECT count(*) FROM dealt),
        'cut', (SELECT priority FROM cut),
        'given_up', (SELECT json_build_array(priority, is_before, queue, key) FROM given_up),
        'ranges', (SELECT count(*) FROM walk WHERE queue IS NOT NULL AND priority <= (SELECT min(priority) FROM looked)),
        'weights', (SELECT json_agg(json_build_array(queue, key, weight)) FROM looked WHERE weight <> 1 AND is_first),
        'has_owner', CASE WHEN EXISTS (SELECT FROM dealt) THEN EXISTS (SELECT FROM owner) END,
        'is_isolated', (SELECT leases.is_isolated FROM holdfast.leases AS leases WHERE leases.id = :lease),
        'has_limits', EXISTS (SELECT FROM holdfast.limits)
    )::text;
