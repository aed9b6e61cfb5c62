-- The columns of a table: their types as they were written, whether they may be NULL, their position in the primary key.
SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(:name) ORDER BY cid;
