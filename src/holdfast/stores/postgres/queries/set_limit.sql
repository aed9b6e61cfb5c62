-- Set the limit of a scope.
-- :scope, :name, :plan, :origin.
INSERT INTO holdfast.limits (scope, name, plan, origin) VALUES (:scope, :name, :plan, :origin)
ON CONFLICT (scope, name) DO UPDATE SET plan = excluded.plan, origin = excluded.origin;
