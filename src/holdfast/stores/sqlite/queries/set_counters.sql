-- Write the counters of blocked members. :counters: JSON of (needs, waits), one for each.
UPDATE holdfast_members SET needs = counted.needs, waits = counted.waits
FROM (
    SELECT
        substr(:items, 72 * key + 1, 16) AS job, json_extract(value, '$[0]') AS needs, json_extract(value, '$[1]') AS waits
    FROM json_each(:counters)
) AS counted
WHERE holdfast_members.job = counted.job;
