-- Record a write of an operator's action: the first one adds its row, a later one adds to its count, a copy of the last one nothing.
-- :id of the action; :write; :who; :origin; :action; :selector; :up_to; :reason; :changed.
INSERT INTO holdfast.audits AS audits (id, last_write, at, who, origin, action, selector, up_to, reason, changed)
VALUES (:id, :write, clock_timestamp(), :who, :origin, :action, :selector, :up_to, :reason, :changed)
ON CONFLICT (id) DO UPDATE SET changed = audits.changed + excluded.changed, last_write = excluded.last_write
WHERE audits.last_write <> excluded.last_write;
