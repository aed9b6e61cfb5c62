-- Remember the available members of a paused flow, which are to be held.
UPDATE holdfast_members SET is_paused = 1
WHERE flow = :flow AND EXISTS (SELECT 1 FROM holdfast_jobs AS jobs WHERE jobs.id = job AND jobs.state = 'available');
