-- The parameters stay the same as with settling.sql, and a claim without transitions does not wait for steps that have nothing to do.
gone AS (
    SELECT :jobs::uuid[], :claims::uuid[], :numbers::bigint[], :results::bytea[], :retentions::double precision[] WHERE false
),
