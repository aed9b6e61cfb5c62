-- locked_keys(those): the jobs among those whose unique key another session has locked: after keys.sql.
SELECT keys.job FROM holdfast.unique_keys AS keys
WHERE keys.job = ANY(ARRAY(SELECT those.id FROM those WHERE those.is_keyed)) AND keys.ctid <> ALL(ARRAY(SELECT place FROM keys))
