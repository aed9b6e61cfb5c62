-- Return the root of a workflow.
-- :flow.
SELECT state, -- include early_as((SELECT clock_timestamp()))
    AS early_as
FROM holdfast.jobs WHERE id = :flow;
