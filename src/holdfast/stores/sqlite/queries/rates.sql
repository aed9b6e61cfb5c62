-- Return from when on each rate is unused. is_key: it is the rate of one key.
SELECT scope, name, is_key, key, ready_at FROM holdfast_rates;
