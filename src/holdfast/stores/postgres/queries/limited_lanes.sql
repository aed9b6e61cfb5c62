-- Return the lanes in which limits allow more jobs. Each task has a row, with the first jobs that a claim may take, and
-- _core/limited_claim.py chooses among them. The last row, without a task, has as JSON where the walk gave up.
-- :tasks (ascending by bytes); :normal and :isolated, which kinds of jobs; :queues, NULL: all.
-- :look, :misses, :share, :turns; :ring_priorities, :ring_queues, :ring_keys, :ring_lefts.
-- :from_priority, :from_before, :from_queue, :from_key; :seen_tasks, :seen_priorities, :seen_queues, :seen_keys, :seen_ats, :seen_jobs.
-- :caps as JSON. All these are explained in exchange_lanes.sql and walk.sql.
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),

-- walk

-- include given_up()

SELECT task, priority, queue, key, weight, due_ats, ids, NULL AS given_up FROM walk
-- The parameters stay the same as those of exchange_lanes.sql.
WHERE number > 0 AND :ring_lefts::bigint[] IS NOT NULL AND -- include is_known()
UNION ALL
SELECT
    NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    (SELECT json_build_array(priority, is_before, queue, key)::text FROM given_up);
