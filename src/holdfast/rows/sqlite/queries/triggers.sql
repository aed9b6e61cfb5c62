-- The triggers of a table, as they were made.
SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = :name COLLATE NOCASE ORDER BY name;
