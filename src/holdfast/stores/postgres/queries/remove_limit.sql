-- Remove the limit of a scope; a claim that has it locked ends first.
-- :scope, :name.
DELETE FROM holdfast.limits WHERE scope = :scope AND name = :name RETURNING name;
