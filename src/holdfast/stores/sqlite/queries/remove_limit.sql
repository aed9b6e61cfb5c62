-- Remove the limit of a scope.
DELETE FROM holdfast_limits WHERE scope = :scope AND name = :named;
