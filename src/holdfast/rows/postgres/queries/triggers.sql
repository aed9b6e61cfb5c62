-- The user's triggers of a table ($1) that run with an UPDATE, or, if Holdfast deletes ($2), a DELETE.
SELECT tgname AS name FROM pg_trigger
WHERE tgrelid = $1::bigint::oid AND NOT tgisinternal AND tgenabled <> 'D'
AND (tgtype::int & 16 <> 0 OR $2 AND tgtype::int & 8 <> 0)
ORDER BY tgname;
