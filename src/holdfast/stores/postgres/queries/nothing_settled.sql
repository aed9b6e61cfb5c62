-- The parameters stay the same, and a worker that waits for its next job does not wait for steps that have nothing to do.
gone AS (
    SELECT :jobs::uuid[], :claims::uuid[], :numbers::bigint[], :results::bytea[], :retentions::double precision[] WHERE false
),
