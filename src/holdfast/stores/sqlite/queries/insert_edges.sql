-- Insert edges. :edges: JSON of (parent, child, tolerates, is_child, parent_flow), by the positions of the jobs.
INSERT INTO holdfast_edges (parent, child, tolerates, is_child, parent_flow)
SELECT
    substr(:items, 72 * json_extract(value, '$[0]') + 1, 16), substr(:items, 72 * json_extract(value, '$[1]') + 1, 16),
    json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    iif(json_extract(value, '$[4]') IS NULL, NULL, substr(:items, 72 * json_extract(value, '$[4]') + 1, 16))
FROM json_each(:edges);
