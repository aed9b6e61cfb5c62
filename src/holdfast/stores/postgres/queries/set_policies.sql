-- Write what an operator chose for failed members.
-- :ids of members; :on_failure.
UPDATE holdfast.members SET on_failure = :on_failure WHERE job = ANY(:ids::uuid[]);
