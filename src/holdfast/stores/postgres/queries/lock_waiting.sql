-- Lock members of workflows that wait, so that no claim takes one before this transaction has decided.
-- :ids of members, NULL: all; :flow, locked.
SELECT id FROM holdfast.pending
WHERE id = ANY(coalesce(:ids::uuid[], ARRAY(SELECT members.job FROM holdfast.members AS members WHERE members.flow = :flow)))
ORDER BY id
FOR UPDATE;
