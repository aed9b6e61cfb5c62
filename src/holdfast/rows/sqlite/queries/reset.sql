-- Return the rows of these keys that their owner still has under the same stamp to pending; after too many resets they fail.
UPDATE {table} SET {moved}
WHERE ({claimed_at}, {key}) IN ({keys}) AND {status} = {in_progress}
RETURNING {status} <> {pending}, {key};
