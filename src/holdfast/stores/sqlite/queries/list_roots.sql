-- Return the own jobs of matching workflows, newest first. It walks the workflows, not all jobs, as list.sql would.
SELECT -- include shown()
    AS now, record.*
FROM holdfast_record AS record
WHERE id IN (
    SELECT root.id
    FROM (
        SELECT flows.id AS of_flow FROM holdfast_flows AS flows
        WHERE flows.id < coalesce(:before, x'ffffffffffffffffffffffffffffffffff') AND flows.id >= coalesce(:down_to, x'00')
    ) AS flows
    CROSS JOIN holdfast_jobs AS root ON root.id = flows.of_flow -- in this order
    WHERE EXISTS (
        SELECT 1 FROM holdfast_members AS known WHERE known.flow = of_flow AND (known.is_gate OR known.job <> known.flow)
    ) AND -- include matching()
    ORDER BY of_flow DESC
    LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;
