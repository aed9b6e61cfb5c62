-- Write the counters of blocked members that have the same ones.
-- :jobs, the text of an array; :needs, :waits.
UPDATE holdfast.members SET needs = :needs, waits = :waits WHERE job = ANY(:jobs::text::uuid[]);
