-- Return the members that a pause held to their positions.
UPDATE holdfast_jobs SET state = 'available'
WHERE id IN (SELECT job FROM holdfast_members WHERE flow = :flow AND is_paused);
