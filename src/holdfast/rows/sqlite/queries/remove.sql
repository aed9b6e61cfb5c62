-- Delete the rows of these keys that are still in progress under the fence; return their keys if that is asked.
DELETE FROM {table}
WHERE {these} IN ({keys}) AND {status} = {in_progress} AND {fence}
{told};
