-- Return what is recorded of the outcomes of these jobs. Only a gate that has completed shows its inputs.
-- :ids of jobs.
SELECT id, state, reason, error, result, is_stub, CASE
    WHEN state = 'completed' AND flow IS NOT NULL THEN (
        SELECT members.inputs FROM holdfast.members AS members WHERE members.job = jobs.id AND members.is_gate
    )
END AS inputs
FROM holdfast.jobs AS jobs WHERE id = ANY(:ids::uuid[]);
