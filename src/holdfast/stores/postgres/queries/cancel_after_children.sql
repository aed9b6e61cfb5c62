-- Let members that wait for their children end cancelled once these have ended.
-- :ids of members.
UPDATE holdfast.members SET is_cancelled = true WHERE job = ANY(:ids::uuid[]);
