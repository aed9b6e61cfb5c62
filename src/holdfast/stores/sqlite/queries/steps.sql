-- Return the steps of a job in the order of their places, each with the time; one row without a step if there are none.
SELECT :wall, steps.name, steps.nth, steps.place, steps.is_sequential, steps.result
FROM (SELECT 1) LEFT JOIN holdfast_steps AS steps ON steps.job = :job
ORDER BY steps.place, steps.name, steps.nth;
