-- Count jobs by queue and state, and return paused queues, in one snapshot. A row without a state is a paused queue without jobs.
SELECT jobs.queue, paused.paused_at, iif(state = 'available' AND available_at > :wall, 'scheduled', state) AS now, count(*)
FROM holdfast_jobs AS jobs
LEFT JOIN holdfast_paused_queues AS paused ON paused.queue = jobs.queue
GROUP BY jobs.queue, now
UNION ALL
SELECT queue, paused_at, NULL, 0 FROM holdfast_paused_queues
ORDER BY 1;
