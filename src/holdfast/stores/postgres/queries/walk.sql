-- The walk of a claim: for each known task, the lanes in the order of claims, and the first due jobs of each. The rule, and the words
-- ring, turn, share, are those of _core/lanes.py.
-- A loose index scan: from one lane straight to the next, without reading the jobs in between. From the lane whose turn it is, it goes
-- to the end of the ring, then from the beginning up to that lane, then to the next priority. A row without a queue is the beginning of
-- a ring, or of its second part. A part ends at (end_priority, start_queue, start_key). Queues that are paused or not wanted are passed
-- as a whole. chr(1) makes the next string after a string, in the order of bytes.
-- It ends once the shares of the lanes fill the claim, and one more lane of that ring has due jobs or none has (is_over). It gives up
-- after :misses lanes without due jobs (missed), because their number must not make a claim slower.
-- The head of a deep lane is full of index entries of deleted jobs, so the step to it continues where the last claim stopped (seen).
-- :caps: NULL, for lanes that no limit counts. Else for the others: how many more jobs each scope allows, and each of its keys that
-- use some of it. Queues that it leaves out, and full ones, are passed as a whole.
-- first_at, first_id: the first job of the lane, due or not. most: how many jobs of the lane are read. found: the sum of the shares.
walk (
    task, priority, start_queue, start_key, end_priority, is_before, queue, key, next_queue, next_key,
    first_at, first_id, weight, most, number, places, due_ats, ids, found, missed, is_over
) AS (
    SELECT
        known.task, ring.priority,
        coalesce((:ring_queues::text[])[ring.turn], '') COLLATE "C", coalesce((:ring_keys::text[])[ring.turn], '') COLLATE "C",
        ring.priority + (NOT (ring.is_begun AND :from_before::boolean))::integer, ring.is_begun AND :from_before,
        NULL::text COLLATE "C", NULL::text COLLATE "C",
        CASE WHEN ring.is_begun THEN :from_queue ELSE coalesce((:ring_queues::text[])[ring.turn], '') END COLLATE "C",
        CASE WHEN ring.is_begun THEN :from_key ELSE coalesce((:ring_keys::text[])[ring.turn], '') END COLLATE "C",
        NULL::timestamptz, NULL::uuid, 1::bigint, 0::bigint, 0::bigint, NULL::tid[], NULL::timestamptz[], NULL::uuid[], 0::bigint, 0, false
    FROM unnest(:tasks::text[] COLLATE "C") AS known (task)
    LEFT JOIN LATERAL (
        SELECT seen.priority, seen.queue, seen.key, seen.at, seen.job
        FROM unnest(
            :seen_tasks::text[], :seen_priorities::bigint[], :seen_queues::text[], :seen_keys::text[], :seen_ats::timestamptz[],
            :seen_jobs::uuid[]
        ) AS seen (task, priority, queue, key, at, job)
        WHERE seen.task = known.task AND seen.priority >= :from_priority::bigint
        ORDER BY seen.priority, seen.queue COLLATE "C", seen.key COLLATE "C" LIMIT 1
    ) AS seen ON true
    CROSS JOIN LATERAL (
        SELECT
            first.priority, array_position(:ring_priorities::bigint[], first.priority) AS turn,
            first.priority = :from_priority AND :from_queue::text IS NOT NULL AS is_begun
        FROM (
            (
                SELECT job.priority FROM holdfast.pending AS job
                WHERE seen.queue IS NOT NULL AND job.state = 'available' AND job.task = known.task AND job.priority >= :from_priority
                    AND (job.priority, job.queue, job.key) < (seen.priority, seen.queue, seen.key)
                ORDER BY job.priority LIMIT 1
            )
            UNION ALL
            (
                SELECT job.priority FROM holdfast.pending AS job
                WHERE job.state = 'available' AND job.task = known.task
                    AND (job.priority, job.queue, job.key, job.available_at, job.id) > (
                        coalesce(seen.priority, :from_priority), coalesce(seen.queue, ''), coalesce(seen.key, ''),
                        coalesce(seen.at, '-infinity'), coalesce(seen.job, '00000000-0000-0000-0000-000000000000')
                    )
                ORDER BY job.priority LIMIT 1
            )
            LIMIT 1
        ) AS first
    ) AS ring
    WHERE :caps::jsonb IS NOT NULL OR NOT EXISTS (
        SELECT FROM holdfast.limits AS limits WHERE limits.scope = 'all' OR (limits.scope = 'task' AND limits.name = known.task)
    )
    UNION ALL
    SELECT
        walk.task, next.priority, lane.start_queue, lane.start_key,
        next.priority + (NOT next.is_before)::integer, next.is_before, next.queue, next.key, lane.next_queue, lane.next_key,
        next.available_at, next.id, lane.weight, lane.most, due.number, due.places, due.due_ats, due.ids,
        walk.found + least(due.number, :share::bigint * lane.weight),
        walk.missed + (next.queue IS NOT NULL AND due.number = 0)::integer, walk.found >= :look AND due.number > 0
    FROM walk
    LEFT JOIN LATERAL (
        SELECT seen.queue, seen.key, seen.at, seen.job
        FROM unnest(
            :seen_tasks::text[], :seen_priorities::bigint[], :seen_queues::text[], :seen_keys::text[], :seen_ats::timestamptz[],
            :seen_jobs::uuid[]
        ) AS seen (task, priority, queue, key, at, job)
        WHERE seen.task = walk.task AND seen.priority = walk.priority AND (seen.queue, seen.key) >= (walk.next_queue, walk.next_key)
        ORDER BY seen.queue COLLATE "C", seen.key COLLATE "C" LIMIT 1
    ) AS seen ON true
    CROSS JOIN LATERAL (
        (
            SELECT job.priority, job.queue, job.key, walk.is_before, job.available_at, job.id FROM holdfast.pending AS job
            WHERE seen.queue IS NOT NULL AND job.state = 'available' AND job.task = walk.task AND job.priority = walk.priority
                AND (job.queue, job.key) >= (walk.next_queue, walk.next_key) AND (job.queue, job.key) < (seen.queue, seen.key)
                AND (job.priority, job.queue, job.key) < (walk.end_priority, walk.start_queue, walk.start_key)
            ORDER BY job.queue, job.key, job.available_at, job.id LIMIT 1
        )
        UNION ALL
        (
            SELECT job.priority, job.queue, job.key, walk.is_before, job.available_at, job.id FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = walk.task AND job.priority = walk.priority
                AND (job.queue, job.key, job.available_at, job.id) > (
                    coalesce(seen.queue, walk.next_queue), coalesce(seen.key, walk.next_key), coalesce(seen.at, '-infinity'),
                    coalesce(seen.job, '00000000-0000-0000-0000-000000000000')
                )
                AND (job.priority, job.queue, job.key) < (walk.end_priority, walk.start_queue, walk.start_key)
            ORDER BY job.queue, job.key, job.available_at, job.id LIMIT 1
        )
        UNION ALL
        SELECT walk.priority, NULL, NULL, true, NULL, NULL WHERE NOT walk.is_before AND (walk.start_queue, walk.start_key) > ('', '')
        UNION ALL
        (
            SELECT job.priority, NULL, NULL, false, NULL, NULL FROM holdfast.pending AS job
            WHERE walk.found < :look AND job.state = 'available' AND job.task = walk.task AND job.priority > walk.priority
            ORDER BY job.priority LIMIT 1
        )
        LIMIT 1
    ) AS next
    LEFT JOIN holdfast.queues AS settings ON settings.queue = next.queue
    CROSS JOIN LATERAL (
        SELECT
            settings.paused_at IS NULL AND (next.queue = ANY(:queues::text[])) IS NOT FALSE AND CASE
                WHEN :caps IS NULL THEN NOT EXISTS (
                    SELECT FROM holdfast.limits AS limits WHERE limits.scope = 'queue' AND limits.name = next.queue
                )
                ELSE coalesce(least(
                    (:caps #>> ARRAY['all', '', 'room'])::bigint, (:caps #>> ARRAY['task', walk.task, 'room'])::bigint,
                    (:caps #>> ARRAY['queue', next.queue, 'room'])::bigint
                ), 0) > 0
            END AS is_open,
            CASE
                WHEN :caps IS NULL THEN :look::bigint
                ELSE least(
                    :look, (:caps #>> ARRAY['all', '', 'room'])::bigint, (:caps #>> ARRAY['all', '', 'keys', next.key])::bigint,
                    (:caps #>> ARRAY['task', walk.task, 'room'])::bigint,
                    (:caps #>> ARRAY['task', walk.task, 'keys', next.key])::bigint,
                    (:caps #>> ARRAY['queue', next.queue, 'room'])::bigint,
                    (:caps #>> ARRAY['queue', next.queue, 'keys', next.key])::bigint
                )
            END AS room,
            coalesce(settings.weight, 1) * coalesce((settings.key_weights::json ->> next.key)::bigint, 1) AS weight,
            array_position(:ring_priorities::bigint[], next.priority) AS turn
        OFFSET 0
    ) AS known
    CROSS JOIN LATERAL (
        SELECT
            known.weight, least(known.room, :turns::bigint * known.weight) AS most,
            CASE WHEN next.queue IS NULL THEN coalesce((:ring_queues::text[])[known.turn], '') ELSE walk.start_queue END AS start_queue,
            CASE WHEN next.queue IS NULL THEN coalesce((:ring_keys::text[])[known.turn], '') ELSE walk.start_key END AS start_key,
            CASE
                WHEN next.queue IS NULL AND next.is_before THEN ''
                WHEN next.queue IS NULL THEN coalesce((:ring_queues::text[])[known.turn], '')
                WHEN known.is_open THEN next.queue
                WHEN :queues IS NULL THEN next.queue || chr(1)
                ELSE (SELECT min(wanted COLLATE "C") FROM unnest(:queues::text[]) AS wanted WHERE wanted > next.queue)
            END AS next_queue,
            CASE
                WHEN next.queue IS NULL AND next.is_before THEN ''
                WHEN next.queue IS NULL THEN coalesce((:ring_keys::text[])[known.turn], '')
                WHEN known.is_open THEN next.key || chr(1)
                ELSE ''
            END AS next_key
    ) AS lane
    CROSS JOIN LATERAL (
        SELECT
            count(*) AS number, array_agg(first.place) AS places,
            array_agg(first.available_at) FILTER (WHERE cardinality(:tasks::text[]) > 1 OR :caps IS NOT NULL) AS due_ats,
            array_agg(first.id) FILTER (WHERE cardinality(:tasks::text[]) > 1 OR :caps IS NOT NULL) AS ids
        FROM (
            SELECT job.ctid AS place, job.available_at, job.id FROM holdfast.pending AS job
            WHERE known.is_open AND job.state = 'available' AND job.task = walk.task AND job.priority = next.priority
                AND job.queue = next.queue AND job.key = next.key AND job.available_at <= (SELECT now FROM clock)
                AND (job.available_at, job.id) >= (next.available_at, next.id) -- before it are only index entries of deleted jobs
                AND -- include claimable(job, (SELECT now FROM clock))
            ORDER BY job.available_at, job.id LIMIT CASE WHEN walk.found < :look THEN lane.most ELSE least(lane.most, 1) END
        ) AS first
    ) AS due
    WHERE NOT walk.is_over AND walk.missed < :misses
),
