-- Lock the lease of a claim, and then the limits that may count its jobs; return the limits as they are now.
-- :lease; :is_lone, whether it may be an isolated one; :voids, the number that it must have, NULL: any; :tasks; :queues, NULL: all.
-- The statement that locks must not be the one that counts: what it sees is older than its locks. A claim that waited here for another
-- one counts afterwards, in limit_uses.sql, what that one took.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
-- include owner()
SELECT limits.scope, limits.name, limits.plan, NULL AS origin FROM holdfast.limits AS limits
WHERE EXISTS (SELECT FROM owner) AND CASE limits.scope
    WHEN 'all' THEN true
    WHEN 'task' THEN limits.name = ANY(:tasks::text[])
    ELSE (limits.name = ANY(:queues::text[])) IS NOT FALSE
END
ORDER BY limits.scope, limits.name
FOR UPDATE OF limits
