-- Which database a caller's connection leads to, and whether there is a schema of ours in it; aborts no transaction.
SELECT current_database()::text, EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'versions');
