-- Move the rows of these keys that are still in progress under the fence; return their keys if that is asked.
UPDATE {table} SET {moved}
WHERE {these} IN ({keys}) AND {status} = {in_progress} AND {fence}
{told};
