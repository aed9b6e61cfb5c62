-- Delete the rows of these keys that are still in progress under the fence; return their keys if that is asked.
DELETE FROM {table} AS own
WHERE {these} AND own.{status} = {in_progress} AND {counted} AND {fence}
{told};
