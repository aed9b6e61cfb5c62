-- Hold the members that hold_members.sql chose.
UPDATE holdfast_jobs SET state = 'held', held_for = NULL
WHERE id IN (SELECT job FROM holdfast_members WHERE flow = :flow AND is_paused);
