-- Rows of these keys that are still in progress under the mark become what they shall be; which ones.
UPDATE {table} AS own SET {moved}
WHERE {these} AND own.{status} = {in_progress} AND {fence}
RETURNING {own_key};
