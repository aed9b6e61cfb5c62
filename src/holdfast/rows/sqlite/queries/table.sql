-- What is there by that name: a table or something else, and how it was made.
SELECT type, sql FROM sqlite_schema WHERE name = :name COLLATE NOCASE AND type IN ('table', 'view');
