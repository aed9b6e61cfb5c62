-- Return the root of a workflow, with the unfinished job of another one that has its unique key.
SELECT jobs.state, jobs.is_stub, (
    SELECT holding.id FROM holdfast_jobs AS holding
    WHERE holding.task = jobs.task AND holding.unique_key = jobs.unique_key AND holding.id <> jobs.id
        AND holding.state IN ('available', 'blocked', 'held', 'claimed', 'running')
)
FROM holdfast_flows AS flows
JOIN holdfast_jobs AS jobs ON jobs.id = flows.id
WHERE flows.id = :flow;
