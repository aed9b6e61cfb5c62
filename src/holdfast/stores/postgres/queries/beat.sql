-- Renew the leases that have not ended, even expired ones: no supervisor has ended them. Return a row for each lease and for each of its
-- jobs with a requested cancellation, with the microseconds since the previous beat.
-- :leases; :is_draining, whether their workers take no more jobs.
-- A lease that another session has locked does not delay the others: it is returned without microseconds, and asked for again.
-- The write touches no indexed column, so that the rows stay where they are. It touches no key, so that claims, which lock their lease
-- against its end, do not block it. The clock is read before any wait for a lock: never later than the owner assumes.
WITH -- include renewed()
-- include beat_answer()
