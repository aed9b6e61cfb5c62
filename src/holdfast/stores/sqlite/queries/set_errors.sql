-- Write the errors of failed members. :errors: JSON, one for each.
UPDATE holdfast_jobs SET error = named.error
FROM (SELECT substr(:items, 72 * key + 1, 16) AS job, value AS error FROM json_each(:errors)) AS named
WHERE holdfast_jobs.id = named.job;
