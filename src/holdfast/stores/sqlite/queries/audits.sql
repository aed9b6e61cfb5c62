-- Return matching actions of operators, newest first.
SELECT id, at, who, origin, action, selector, up_to, changed, reason FROM holdfast_audits
WHERE id < :before AND (:action IS NULL OR action = :action) AND (:who IS NULL OR who = :who)
ORDER BY id DESC
LIMIT :limit;
