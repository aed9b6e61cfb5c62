-- Move the rows of these keys that are still in progress under the fence; return their keys if that is asked.
UPDATE {table} AS own SET {moved}
WHERE {these} AND own.{status} = {in_progress} AND {counted} AND {fence}
{told};
