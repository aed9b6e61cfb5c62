-- Ask active members to cancel.
-- :ids of members, NULL: all; :flow, locked.
UPDATE holdfast.active SET cancel_requested = true
WHERE id = ANY(coalesce(:ids::uuid[], ARRAY(SELECT members.job FROM holdfast.members AS members WHERE members.flow = :flow)));
