-- Remember from when on rates are unused: :rates is JSON of (scope, name, is_key, key, ready_at).
INSERT INTO holdfast_rates (scope, name, is_key, key, ready_at)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]')
FROM json_each(:rates)
WHERE true
ON CONFLICT DO UPDATE SET ready_at = excluded.ready_at;
