-- Which database a caller's connection leads to, and whether there is a schema of ours in it; aborts no transaction.
-- :schema of ours.
SELECT current_database()::text, EXISTS (SELECT FROM pg_tables WHERE schemaname = :schema AND tablename = 'versions');
