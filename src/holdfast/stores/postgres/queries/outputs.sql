-- Return what is recorded of the outcomes of these jobs.
-- :ids of jobs.
SELECT id, state, claim_id, claim_number, cancel_requested, is_stub, reason, error, result, flow, member
FROM holdfast.jobs WHERE id = ANY(:ids::uuid[]);
