-- Remember from when on rates are unused; their limits are locked.
-- :scopes, :names, :are_keys, :keys, :ready_ats.
INSERT INTO holdfast.rates (scope, name, is_key, key, ready_at)
SELECT * FROM unnest(:scopes::text[], :names::text[], :are_keys::boolean[], :keys::text[], :ready_ats::bigint[])
ON CONFLICT (scope, name, is_key, key) DO UPDATE SET ready_at = excluded.ready_at;
