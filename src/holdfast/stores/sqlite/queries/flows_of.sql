-- Return the flow of each of these jobs; NULL: a plain one.
SELECT id, flow FROM holdfast_jobs WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
