-- Return all limits.
SELECT scope, name, plan, origin FROM holdfast.limits;
