-- The tables that inherit from a table ($1), as SQL writes them.
SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = $1::bigint::oid ORDER BY 1;
