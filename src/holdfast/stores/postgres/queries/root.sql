-- Return the root of a workflow: its state, whether it is a stub, and the other unfinished job that has its unique key.
-- :flow.
SELECT root.state, root.is_stub, (
    SELECT keys.job FROM holdfast.unique_keys AS keys
    WHERE keys.task = root.task AND keys.key = root.unique_key AND keys.job <> root.id
) AS holder
FROM holdfast.jobs AS root WHERE root.id = :flow;
