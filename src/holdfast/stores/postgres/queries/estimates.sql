-- Return about how many rows all finished jobs, the failed and the cancelled ones have, from the statistics of their tables and indexes.
-- As the planner does: the rows of a page when it was last vacuumed or analyzed, for all pages that it has now. Nothing of them is read.
SELECT
    kinds.kind,
    sum(parts.reltuples / parts.relpages * (pg_relation_size(parts.oid) / current_setting('block_size')::integer))::bigint AS number
FROM (
    VALUES
    ('all', to_regclass('holdfast.finished')),
    ('failed', to_regclass('holdfast.finished_failed_ids')),
    ('cancelled', to_regclass('holdfast.finished_cancelled_ids'))
) AS kinds (kind, parent)
JOIN pg_inherits ON inhparent = kinds.parent
JOIN pg_class AS parts ON parts.oid = inhrelid
WHERE parts.relpages > 0
GROUP BY 1
