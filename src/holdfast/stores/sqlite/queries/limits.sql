-- Return all limits, by scope.
SELECT scope, name, plan, origin FROM holdfast_limits ORDER BY scope, name;
