-- Lock these jobs in all tables and return their ids; those that another session has locked are left out.
-- :ids of jobs.
WITH pending AS MATERIALIZED (
    SELECT id FROM holdfast.pending WHERE id = ANY(:ids::uuid[]) FOR UPDATE SKIP LOCKED
),

active AS MATERIALIZED (
    SELECT id FROM holdfast.active WHERE id = ANY(:ids::uuid[]) FOR UPDATE SKIP LOCKED
),

finished AS MATERIALIZED (
    SELECT id FROM holdfast.finished WHERE id = ANY(:ids::uuid[]) FOR UPDATE SKIP LOCKED
)

SELECT id FROM pending
UNION ALL
SELECT id FROM active
UNION ALL
SELECT id FROM finished
