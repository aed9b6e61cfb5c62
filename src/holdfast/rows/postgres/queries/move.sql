-- Rows of these keys that are still in progress under the mark become what they shall be; which ones, if that is asked.
UPDATE {table} AS own SET {moved}
WHERE {these} AND own.{status} = {in_progress} AND {counted} AND {fence}
{told};
