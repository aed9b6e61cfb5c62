-- Return the root of a workflow, with the job that holds its unique key, if that is another one.
SELECT jobs.state, jobs.is_stub, (
    SELECT holding.id FROM holdfast_jobs AS holding
    WHERE holding.task = jobs.task AND holding.unique_key = jobs.unique_key AND holding.id <> jobs.id
        AND -- include holds_key(holding, :wall)
)
FROM holdfast_flows AS flows
JOIN holdfast_jobs AS jobs ON jobs.id = flows.id
WHERE flows.id = :flow;
