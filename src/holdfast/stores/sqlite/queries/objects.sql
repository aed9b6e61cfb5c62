-- Return the tables, indexes and triggers of the file, each with the statement that creates it, if any.
SELECT name, sql FROM main.sqlite_schema;
