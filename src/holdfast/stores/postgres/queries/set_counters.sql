-- Write the counters of blocked members.
-- :ids of members (ascending), :needs, :waits.
UPDATE holdfast.members SET
    needs = (:needs::integer[])[width_bucket(job, :ids::uuid[])], waits = (:waits::integer[])[width_bucket(job, :ids::uuid[])]
WHERE job = ANY(:ids::uuid[]);
