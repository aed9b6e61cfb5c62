-- Take the unique key of a finished root again; return the job that has it, nothing if the root has no key.
-- :flow, locked.
SELECT (holdfast.take_key(root.task, root.unique_key, root.id, root.digest)).job AS holder
FROM (
    SELECT task, unique_key, id, sha256(coalesce(
        payload, (SELECT payloads.payload FROM holdfast.payloads AS payloads WHERE payloads.job = root.id), ''
    )) AS digest
    FROM holdfast.finished_other AS root WHERE root.id = :flow AND root.unique_key IS NOT NULL
    OFFSET 0
) AS root;
