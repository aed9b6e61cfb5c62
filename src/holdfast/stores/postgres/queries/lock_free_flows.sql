-- Lock those of these workflows that no other session has locked, and return them.
-- :flows.
SELECT id FROM holdfast.flows WHERE id = ANY(:flows::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED;
