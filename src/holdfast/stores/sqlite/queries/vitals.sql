-- Return the version of the schema, and for how long the job that waits for longest to be pruned has waited.
-- Members of workflows wait for each other: of the first thousand jobs those of none count.
SELECT
    (SELECT version + 0 FROM main.holdfast_schema),
    (
        SELECT :wall - min(delete_after) FROM (
            SELECT delete_after, flow FROM holdfast_jobs
            WHERE delete_after <= :wall
            ORDER BY delete_after
            LIMIT 1000
        )
        WHERE flow IS NULL
    );
