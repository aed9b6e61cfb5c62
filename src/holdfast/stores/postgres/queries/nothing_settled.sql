-- The parameters stay the same, and a worker that waits for its next job does not wait for steps that have nothing to do.
gone AS (
    SELECT $1::uuid[], $2::uuid[], $3::bigint[], $4::bytea[], $5::double precision[] WHERE false
),
