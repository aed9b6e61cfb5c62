-- Return whether there are limits.
SELECT EXISTS (SELECT 1 FROM holdfast_limits);
