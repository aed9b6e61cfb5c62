-- What operators did: one row per action, written in the action's own write, and kept for AUDIT_RETENTION.
CREATE TABLE main.holdfast_audits (
    id BLOB PRIMARY KEY,
    last_write BLOB NOT NULL,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    origin TEXT NOT NULL,
    action TEXT NOT NULL,
    selector TEXT NOT NULL, -- JSON
    up_to TEXT,
    reason TEXT,
    changed INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX main.holdfast_audits_prunable ON holdfast_audits (at);
