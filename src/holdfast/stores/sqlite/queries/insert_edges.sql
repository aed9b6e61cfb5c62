-- Insert edges. :edges: JSON of (parent, child, tolerates, is_child), by the positions of the jobs.
INSERT INTO holdfast_edges (parent, child, tolerates, is_child)
SELECT
    substr(:items, 72 * json_extract(value, '$[0]') + 1, 16), substr(:items, 72 * json_extract(value, '$[1]') + 1, 16),
    json_extract(value, '$[2]'), json_extract(value, '$[3]')
FROM json_each(:edges);
