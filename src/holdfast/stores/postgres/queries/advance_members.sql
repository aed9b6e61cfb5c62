-- Write the counters of blocked members, and release others, which are due from now on; in a paused workflow they are held.
-- :ids of the former (ascending), :needs, :waits; :released, and :alike, the text of an array, with more of them; :is_paused.
WITH counted AS (
    UPDATE holdfast.members SET
        needs = (:needs::integer[])[width_bucket(job, :ids::uuid[])], waits = (:waits::integer[])[width_bucket(job, :ids::uuid[])]
    WHERE job = ANY(:ids::uuid[])
)

UPDATE holdfast.pending SET
    state = CASE WHEN :is_paused::boolean THEN 'held' ELSE 'available' END, held_for = CASE WHEN :is_paused::boolean THEN 'pause' END,
    available_at = greatest(available_at, (SELECT clock_timestamp()))
WHERE id = ANY(:released::uuid[] || :alike::text::uuid[]) AND state = 'blocked';
