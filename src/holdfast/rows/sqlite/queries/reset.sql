-- Rows of these keys that somebody still has under the same stamp are pending again, or have failed if it was once too often.
UPDATE {table} SET {moved}
WHERE ({claimed_at}, {key}) IN ({keys}) AND {status} = {in_progress}
RETURNING {status} <> {pending}, {key};
