-- Return the members that a pause held to their positions.
-- :flow, locked.
UPDATE holdfast.pending SET state = 'available', held_for = NULL
WHERE id = ANY(ARRAY(SELECT members.job FROM holdfast.members AS members WHERE members.flow = :flow))
    AND state = 'held' AND held_for = 'pause';
