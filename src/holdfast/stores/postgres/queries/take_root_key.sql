-- Take the unique key of a finished root again, on its terms; return the job that has it, nothing if the root has no key.
-- :flow, locked.
SELECT (holdfast.hold_key(root.task, root.unique_key, root.id, root.digest, root.period, root.starts)).job AS holder
FROM (
    SELECT
        task, unique_key, id,
        sha256(coalesce(payload, (SELECT payloads.payload FROM holdfast.payloads AS payloads WHERE payloads.job = root.id), '')) AS digest,
        -- the seconds that are left of its period, which began when it was enqueued
        (extra::json #>> '{unique,seconds}')::double precision - extract(epoch FROM clock_timestamp() - created_at) AS period,
        extra::json #>> '{unique,until_started}' IS NOT NULL AS starts
    FROM holdfast.finished_other AS root WHERE root.id = :flow AND root.unique_key IS NOT NULL
    OFFSET 0
) AS root;
