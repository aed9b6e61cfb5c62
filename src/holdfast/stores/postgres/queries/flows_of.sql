-- Return the workflows to which some of these jobs belong.
-- :ids of jobs.
SELECT DISTINCT flow FROM holdfast.members WHERE job = ANY(:ids::uuid[]);
