-- The jobs that were dealt out, in that order, that no other session has locked.
SELECT job.ctid FROM dealt INNER JOIN holdfast.pending AS job ON job.ctid = dealt.place
-- Check again under the lock: the row may have changed. IS TRUE keeps the planner off the index.
WHERE (job.state = 'available' AND job.available_at <= (SELECT now FROM clock)) IS TRUE
    AND CASE WHEN job.id IS NOT NULL THEN EXISTS (SELECT FROM owner) END
ORDER BY dealt.nth LIMIT :room
FOR UPDATE OF job SKIP LOCKED
