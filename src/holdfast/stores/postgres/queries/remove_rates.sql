-- Forget the rates of a limit that was removed: also those that a claim wrote until then.
-- :scope, :name.
DELETE FROM holdfast.rates WHERE scope = :scope AND name = :name;
