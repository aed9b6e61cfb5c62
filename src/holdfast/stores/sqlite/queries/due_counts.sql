-- Return how many jobs are due in each of :ranges, counted up to :most; read like look.sql.
WITH asked AS MATERIALIZED (
    SELECT
        key AS place, json_extract(value, '$[0]') AS task, json_extract(value, '$[1]') AS next_priority,
        json_extract(value, '$[2]') AS next_queue, json_extract(value, '$[3]') AS next_key
    FROM json_each(:ranges)
)
SELECT (-- include due_jobs(asked, :most)) FROM asked ORDER BY place;
