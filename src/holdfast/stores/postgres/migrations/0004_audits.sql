-- What operators did: one row per action, written in the action's own write, and kept for AUDIT_RETENTION. selector is JSON.
CREATE TABLE holdfast.audits (
    id uuid PRIMARY KEY,
    last_write uuid NOT NULL,
    at timestamptz NOT NULL,
    who text COLLATE "C" NOT NULL,
    origin text NOT NULL,
    action text COLLATE "C" NOT NULL,
    selector text NOT NULL,
    up_to text,
    reason text,
    changed bigint NOT NULL
);
CREATE INDEX audits_at ON holdfast.audits (at);
