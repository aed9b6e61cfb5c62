-- The tables, indexes and triggers of the file, each with the statement that makes it, if there is one.
SELECT name, sql FROM main.sqlite_schema;
