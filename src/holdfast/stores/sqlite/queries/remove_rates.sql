-- Forget the rates of a scope.
DELETE FROM holdfast_rates WHERE scope = :scope AND name = :named;
