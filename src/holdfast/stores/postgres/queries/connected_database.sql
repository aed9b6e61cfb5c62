-- Return the database that a caller's connection leads to, and whether it has Holdfast's schema; this aborts no transaction.
-- :schema of ours.
SELECT current_database()::text, EXISTS (SELECT FROM pg_tables WHERE schemaname = :schema AND tablename = 'versions');
