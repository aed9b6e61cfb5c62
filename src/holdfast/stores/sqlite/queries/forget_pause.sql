-- Forget which members of a flow a pause held, but for those that are still held.
UPDATE holdfast_members SET is_paused = 0
WHERE flow = :flow AND is_paused AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS jobs WHERE jobs.id = job AND jobs.state = 'held');
