-- Return the steps of a job in the order of their places, each with the time; one row without a step if there are none.
-- :job.
SELECT clock.now, steps.name, steps.nth, steps.place, steps.is_sequential, steps.result
FROM (SELECT clock_timestamp() AS now) AS clock LEFT JOIN holdfast.steps AS steps ON steps.job = :job
ORDER BY steps.place, steps.name, steps.nth
