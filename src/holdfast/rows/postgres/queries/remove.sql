-- Rows of these keys that are still in progress under the mark are deleted; which ones, if that is asked.
DELETE FROM {table} AS own
WHERE {these} AND own.{status} = {in_progress} AND {counted} AND {fence}
{told};
