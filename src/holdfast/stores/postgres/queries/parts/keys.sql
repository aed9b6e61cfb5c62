-- keys(those): the unique keys of those jobs, but for those that another session has locked.
keys AS MATERIALIZED (
    SELECT keys.ctid AS place FROM holdfast.unique_keys AS keys
    WHERE keys.job = ANY(ARRAY(SELECT those.id FROM those WHERE those.is_keyed))
    FOR UPDATE SKIP LOCKED
)
