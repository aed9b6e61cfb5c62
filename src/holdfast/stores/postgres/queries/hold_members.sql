-- Hold the available members of a paused workflow.
-- :flow, locked.
UPDATE holdfast.pending SET state = 'held', held_for = 'pause'
WHERE id = ANY(ARRAY(SELECT members.job FROM holdfast.members AS members WHERE members.flow = :flow)) AND state = 'available';
