-- Set the limit of a scope.
INSERT INTO holdfast_limits (scope, name, plan, origin) VALUES (:scope, :named, :plan, :origin)
ON CONFLICT DO UPDATE SET plan = excluded.plan, origin = excluded.origin;
