-- Return matching actions of operators, newest first.
-- :before, :action, :who: each may be NULL; :limit.
SELECT id, at, who, origin, action, selector, up_to, changed, reason FROM holdfast.audits
WHERE (:before::uuid IS NULL OR id < :before::uuid)
    AND (:action::text IS NULL OR action = :action::text)
    AND (:who::text IS NULL OR who = :who::text)
ORDER BY id DESC
LIMIT :limit
