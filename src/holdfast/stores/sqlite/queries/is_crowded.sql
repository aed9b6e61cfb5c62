-- Return whether at least :crowd jobs are available or scheduled.
SELECT count(*) = :crowd FROM (SELECT 1 FROM holdfast_jobs WHERE state = 'available' LIMIT :crowd);
