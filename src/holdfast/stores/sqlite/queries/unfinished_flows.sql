-- Return workflows that have not ended, by id.
SELECT flows.id FROM holdfast_flows AS flows
JOIN holdfast_jobs AS jobs ON jobs.id = flows.id
WHERE jobs.state NOT IN ('completed', 'failed', 'cancelled')
    AND (:after IS NULL OR flows.id > :after) AND (:flow IS NULL OR flows.id = :flow)
ORDER BY flows.id
LIMIT :limit;
