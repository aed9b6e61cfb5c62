-- Record a write of an operator's action: the first one adds its row, a later one adds to its count, a copy of the last one nothing.
INSERT INTO holdfast_audits (id, last_write, at, who, origin, action, selector, up_to, reason, changed)
VALUES (:id, :write, :wall, :who, :origin, :action, :selector, :up_to, :reason, :changed)
ON CONFLICT (id) DO UPDATE SET changed = changed + excluded.changed, last_write = excluded.last_write
WHERE last_write <> excluded.last_write;
