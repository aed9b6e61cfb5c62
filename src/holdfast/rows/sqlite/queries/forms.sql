-- In which forms rows in progress, and the newest of those that are done, hold their stamps: how many each, and one of them.
SELECT form, count(*), max(sample) FROM (
    SELECT CASE {cases} ELSE '' END AS form, substr(quote({claimed_at}), 1, 40) AS sample FROM (
        SELECT * FROM (SELECT {claimed_at} FROM {table} WHERE {status} = {in_progress} LIMIT :limit)
        UNION ALL
        SELECT {claimed_at} FROM (SELECT {status}, {claimed_at} FROM {table} ORDER BY {newest} LIMIT :limit)
        WHERE {status} = {done}
    )
    WHERE {claimed_at} IS NOT NULL
)
GROUP BY form;
