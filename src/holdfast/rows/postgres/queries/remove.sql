-- Rows of these keys that are still in progress under the mark are deleted; which ones.
DELETE FROM {table} AS own
WHERE {these} AND own.{status} = {in_progress} AND {fence}
RETURNING {own_key};
