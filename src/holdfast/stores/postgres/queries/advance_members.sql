-- Write the counters of blocked members, and release others, which are due from now on; in a paused workflow they are held.
-- :ids of the former (ascending), :needs, :waits; :released; :is_paused.
WITH counted AS (
    UPDATE holdfast.members SET
        needs = (:needs::integer[])[width_bucket(job, :ids::uuid[])], waits = (:waits::integer[])[width_bucket(job, :ids::uuid[])]
    WHERE job = ANY(:ids::uuid[])
)

-- include released(:released::uuid[]);
